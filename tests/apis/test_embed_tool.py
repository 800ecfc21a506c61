# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files of embeddings from the command line."""
import csv
import sys

import numpy as np
import pytest
import torch
from mmengine.config import Config

from qbheat_mm.apis import embed, load_encoder
from qbheat_mm.cli.embedding_files import open_for_embeddings
from qbheat_mm.errors import UserError

from .conftest import settings_of


@pytest.fixture(scope='module')
def expected(checkpoint, folders):
    return embed(checkpoint, folders / 'train', pool='avg+token')


def read(path):
    """Files and vectors of a file of any kind."""
    if path.suffix == '.npz':
        content = np.load(path)
        return content['files'].tolist(), content['embeddings']
    if path.suffix == '.csv':
        head, *rows = csv.reader(path.read_text().splitlines())
        assert head[:2] == ['file', 'e0'] and len(head) == 37
        return [row[0] for row in rows], np.array(
            [row[1:] for row in rows], np.float32)
    table = pytest.importorskip('pyarrow.parquet').read_table(path)
    return (table['file'].to_pylist(),
            np.array(table['embedding'].to_pylist(), np.float32))


@pytest.mark.parametrize('name', ['x.npz', 'deep/er/x.csv', 'x.parquet'])
def test_each_kind(name, call, checkpoint, folders, expected, tmp_path,
                   capsys):
    if name.endswith('parquet'):
        pytest.importorskip('pyarrow')
    out = tmp_path / name
    call('embed', checkpoint, folders / 'train', '--out', out, '--pool',
         'avg+token', '--batch-size', 5)
    files, vectors = read(out)
    assert files == expected.files
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected.embeddings, atol=1e-6)
    assert [path.name for path in out.parent.iterdir()
            if path.is_file()] == [out.name]
    assert '12 embeddings of 36 numbers' in capsys.readouterr().out


def test_float32_survives_text(tmp_path):
    rows = np.random.default_rng(0).normal(size=(50, 36)).astype(np.float32)
    with open_for_embeddings(str(tmp_path / 'x.csv')) as file:
        file.add([f'{i},"{i}\n' for i in range(50)], rows)
    with open(tmp_path / 'x.csv', newline='') as file:
        _, *read_rows = csv.reader(file)
    assert read_rows[7][0] == '7,"7\n'
    assert (np.array([row[1:] for row in read_rows], np.float32)
            == rows).all()


@pytest.mark.parametrize('name', ['x.npz', 'x.csv'])
def test_a_file_that_is_not_whole_does_not_appear(name, tmp_path):
    out = tmp_path / name
    out.write_text('of before')
    with pytest.raises(KeyboardInterrupt), open_for_embeddings(
            str(out)) as file:
        file.add(['a'], np.ones((1, 2), np.float32))
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert out.read_text() == 'of before'


def test_another_kind_is_refused_before_the_work(call, checkpoint, folders):
    with pytest.raises(UserError, match='.npz, .csv, .parquet'):
        call('embed', checkpoint, folders, '--out', 'x.h5')


def test_parquet_without_pyarrow_is_one_line(call, checkpoint, folders,
                                             tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(UserError, match='pip install pyarrow'):
        call('embed', checkpoint, folders, '--out', tmp_path / 'x.parquet')
    assert not list(tmp_path.iterdir())


def test_bare_weights_and_a_configuration(call, checkpoint, folders, expected,
                                          tmp_path):
    torch.save(load_encoder(checkpoint).backbone.state_dict(),
               tmp_path / 'bare.pth')
    Config(settings_of()).dump(tmp_path / 'config.py')
    call('embed', tmp_path / 'bare.pth', folders / 'train', '--config',
         tmp_path / 'config.py', '--pool', 'avg+token', '--out',
         tmp_path / 'x.npz')
    np.testing.assert_allclose(
        read(tmp_path / 'x.npz')[1], expected.embeddings, atol=1e-6)


def test_two_that_write_one_file_do_not_mix(tmp_path, monkeypatch):
    """The last that ends has written it whole."""
    out = tmp_path / 'x.npz'
    with open_for_embeddings(str(out)) as first:
        first.add(['a'], np.ones((1, 2), np.float32))
        monkeypatch.setattr('os.getpid', lambda: 1)  # another process
        with open_for_embeddings(str(out)) as second:
            second.add(['b'], np.full((1, 2), 2, np.float32))
        assert read(out)[0] == ['b']
        first.add(['c'], np.ones((1, 2), np.float32))
    files, vectors = read(out)
    assert files == ['a', 'c'] and (vectors == 1).all()
    assert [path.name for path in tmp_path.iterdir()] == ['x.npz']
