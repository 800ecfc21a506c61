# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The page on detection measures what an encoder sees of the padding."""
from PIL import Image

from qbheat_mm.apis import build_encoder
from qbheat_mm.export import export_encoder

from .reading import read_blocks


def test_padding_changes_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    encoder = build_encoder('qbheat_mf-285m_8xb128-amp-coslr-100e_in1k')
    export_encoder(encoder, 'encoder.safetensors')
    Image.radial_gradient('L').save('photo.jpg')
    block, = (block for block in read_blocks('docs/detection.md')
              if block.tested == 'tests/docs/test_padding.py')
    exec(block.text, {})
    changes = capsys.readouterr().out.splitlines()[-2:]
    assert all(0 < float(each) < 1 for each in changes), changes
