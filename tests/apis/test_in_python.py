# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Python of README and guides, run in an empty folder with the wheel."""
import importlib.util
import re
import sys
import zipfile
from itertools import takewhile

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

from qbheat_mm.apis import find_config, load_encoder
from qbheat_mm.export import export_encoder

from ..helpers.packages import build, copy_tree
from ..helpers.pages import read_blocks
from ..helpers.shipped import write_classes, write_image
from ..helpers.tools import run

PAGES = ('README.md', 'docs/in_python.md', 'docs/detection.md',
         'docs/tutorials/heads.md')
SNIPPETS = [block.text for page in PAGES for block in read_blocks(page)
            if block.tested == 'tests/apis/test_in_python.py']
# Replacements that make it faster.
SHORTER = {
    "pretrain('my_images', 'runs/first')":
    "pretrain('my_images', 'runs/first', epochs=1, size=64, workers=0, "
    "arch=dict(stem=8, tokens=(3, 16), conv=20, stages=[[('lite'"
    ", 8, 8)], [('mf-down', 16, 12)]]), options={'model.neck.depth': 1})"}


def save(name, path, parts=None):
    """A checkpoint of a configuration with random weights."""
    cfg = Config.fromfile(find_config(name))
    torch.manual_seed(0)  # the same encoder in all
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        model = MODELS.build(cfg.model)
    weights = {key: value for key, value in model.state_dict().items()
               if parts is None or key.startswith(parts)}
    torch.save(dict(meta=dict(cfg=cfg.pretty_text), state_dict=weights), path)


@pytest.fixture
def folder(tmp_path):
    """The files that the pages name."""
    folder = tmp_path / 'folder'
    for i in range(3):
        write_image(folder / f'my_images/{i}.png')
    for split in ('train', 'val'):
        write_classes(folder / f'my_classes/{split}', 'ab')
    save('qbheat_mf-285m_8xb128-amp-coslr-100e_in1k',
         folder / 'epoch_100.pth', 'backbone.')
    export_encoder(load_encoder(str(folder / 'epoch_100.pth')),
                   folder / 'encoder.safetensors')
    save('mf-285m_8xb512-linear-coslr-90e_in1k', folder / 'probe.pth')
    return folder


def test_each_snippet(folder, tmp_path):
    tree = copy_tree(tmp_path)
    zipfile.ZipFile(build('wheel', tree)).extractall(folder / 'site')
    has_mmdet = importlib.util.find_spec('mmdet') is not None
    blocks = takewhile(lambda text: has_mmdet or 'mmdet' not in text, SNIPPETS)
    if has_mmdet:
        import qbheat_mm.detection  # noqa: F401
        save('mf-dec-211_mf-285m_frozen_8xb2-50e_coco',
             folder / 'detector.pth')
    script = '\n'.join(blocks)
    for long, short in SHORTER.items():
        assert long in script
        script = script.replace(long, short)
    (folder / 'page.py').write_text(
        f'{script}\nprint("from", qbheat_mm.__file__)\n')
    out = run(sys.executable, 'page.py', cwd=folder,
              PYTHONPATH=str(folder / 'site'))
    assert f'from {folder}/site/qbheat_mm/__init__.py' in out
    lines = out.splitlines()
    assert re.search(r'^my_classes/val/a/\S+ looks like [ab]$', out, re.M)
    assert "MobileFormer(arch='mf-285m') (256, 256)" in lines
    assert ('RGB, mean 123.675/116.28/103.53, std 58.395/57.12/57.375'
            in lines)
    assert 'torch.Size([2, 720, 14, 20]) torch.Size([2, 6, 192])' in lines
    assert '[(28, 56, 80), (48, 28, 40), (720, 14, 20)]' in lines
    assert '(3, 912) my_images/0.png' in lines
    assert any('mf-285m_8xb512-tran1-coslr-200e_in1k' in line
               for line in lines)
    if has_mmdet:
        assert list((folder / 'found' / 'vis').iterdir())
