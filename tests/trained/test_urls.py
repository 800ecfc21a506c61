# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints and encoders by URL."""
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from qbheat_mm.apis import load_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.checkpoints import MODEL, settings_of, write_checkpoint


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Of a server of the files in a folder; torch's downloads are there, too.
    """
    monkeypatch.setenv('no_proxy', '*')
    monkeypatch.setattr(torch.hub, '_hub_dir', str(tmp_path / 'hub'))
    server = ThreadingHTTPServer(('127.0.0.1', 0), partial(
        SimpleHTTPRequestHandler, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield 'http://{}:{}'.format(*server.server_address)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize('ends', [
    ('a/model.pth', 'b/model.pth'), ('model.pth?of=1', 'model.pth?of=2')])
def test_urls_that_end_alike_are_different_files(address, tmp_path, ends):
    for number, end in enumerate(ends):
        file = tmp_path / end.partition('?')[0]
        file.parent.mkdir(exist_ok=True)
        torch.save(dict(number=number), file)
        assert safe_load(f'{address}/{end}')['number'] == number
        file.unlink()  # downloaded once
        assert safe_load(f'{address}/{end}')['number'] == number


@pytest.mark.parametrize('name', [
    'epoch_1.pth', 'encoder.safetensors', 'encoder.safetensors?download=true'])
def test_an_encoder_is_loaded_from_a_url(address, tmp_path, forget, name):
    write_checkpoint(tmp_path / 'epoch_1.pth', MODEL, settings_of())
    local = load_encoder(tmp_path / 'epoch_1.pth')
    export_encoder(local, tmp_path / 'encoder.safetensors')
    found = load_encoder(f'{address}/{name}')
    assert found.normalization == local.normalization
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(found(images)[0], local(images)[0])


def test_a_missing_url_is_no_damaged_file(address):
    with pytest.raises(UserError, match='a.pth. cannot be downloaded .*404'):
        safe_load(f'{address}/a.pth')
