# Copyright (c) QB-Heat MM authors. All rights reserved.
"""docs/elsewhere.md, run from an empty folder with the wheel installed."""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from PIL import Image

from qbheat_mm.apis import find_config, load_encoder
from qbheat_mm.export import export_encoder

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / 'docs/elsewhere.md').read_text(encoding='utf-8')
# Replacements that make it faster.
SHORTER = {
    "pretrain('my_images', 'runs/mine', epochs=100)":
    "pretrain('my_images', 'runs/mine', epochs=1, size=64, workers=0, "
    "arch=dict(stem=8, tokens=(3, 16), conv=20, stages=[[('lite'"
    ", 8, 8)], [('mf-down', 16, 12)]]), options={'model.neck.depth': 1})"}
BUILD = ('import sys, setuptools.build_meta as backend; '
         'print(backend.build_wheel(sys.argv[1]))')


def snippets(text):
    """Blocks of Python by their headings."""
    found = {}
    for part in re.split(r'^## ', text, flags=re.M)[1:]:
        blocks = re.findall(r'^```python\n(.*?)^```$', part, re.M | re.S)
        if blocks:
            found[part.splitlines()[0]] = '\n'.join(blocks)
    return found


@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    """A folder with the package from its wheel."""
    root = tmp_path_factory.mktemp('wheel')
    tree = root / 'tree'
    ignore = shutil.ignore_patterns('.mim', '__pycache__')
    for name in ('qbheat_mm', 'configs', 'tools', 'requirements'):
        shutil.copytree(ROOT / name, tree / name, ignore=ignore)
    for name in ('setup.py', 'MANIFEST.in', 'model-index.yml', 'LICENSE'):
        shutil.copy(ROOT / name, tree)
    run([sys.executable, '-c', BUILD, root], tree)
    wheel, = root.glob('*.whl')
    zipfile.ZipFile(wheel).extractall(root / 'site')
    return root / 'site'


def run(command, cwd, **environment):
    """Run a command; return what it prints."""
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True,
        env={**os.environ, **environment})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


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
    """The files that the page names."""
    random = np.random.default_rng(0)
    (tmp_path / 'my_images').mkdir()
    for i in range(3):
        pixels = random.integers(0, 255, (64, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / 'my_images' / f'{i}.png')
    save('qbheat_mf-285m_8xb128-amp-coslr-100e_in1k',
         tmp_path / 'epoch_100.pth', 'backbone.')
    export_encoder(load_encoder(str(tmp_path / 'epoch_100.pth')),
                   tmp_path / 'encoder.safetensors')
    save('mf-285m_8xb512-linear-coslr-90e_in1k', tmp_path / 'probe.pth')
    return tmp_path


def test_each_snippet(installed, folder):
    parts = snippets(TEXT)
    assert list(parts) == ['PyTorch', 'Embeddings', 'Pre-training',
                           'mmpretrain', 'mmdet']
    if importlib.util.find_spec('mmdet') is None:
        del parts['mmdet']
    else:
        import qbheat_mm.detection  # noqa: F401
        save('mf-dec-211_mf-285m_frozen_8xb2-50e_coco',
             folder / 'detector.pth')
    script = '\n'.join(parts.values())
    for long, short in SHORTER.items():
        assert long in script
        script = script.replace(long, short)
    (folder / 'page.py').write_text(
        f'{script}\nprint("from", qbheat_mm.__file__)\n')
    out = run([sys.executable, 'page.py'], folder, PYTHONPATH=str(installed))
    assert f'from {installed}/qbheat_mm/__init__.py' in out
    lines = out.splitlines()
    assert "MobileFormer(arch='mf-285m') (256, 256)" in lines
    assert ('RGB, mean 123.675/116.28/103.53, std 58.395/57.12/57.375'
            in lines)
    assert 'torch.Size([2, 720, 14, 20]) torch.Size([2, 6, 192])' in lines
    assert '[(28, 56, 80), (48, 28, 40), (720, 14, 20)]' in lines
    assert '(3, 912) my_images/0.png' in lines
    assert any('mf-285m_8xb512-tran1-coslr-200e_in1k' in line
               for line in lines)
    if 'mmdet' in parts:
        assert list((folder / 'found' / 'vis').iterdir())
