# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A tiny pre-training model, its checkpoint and images of all kinds.

Its patches have 4 pixels: an image of 32 x 32 has 8 x 8.
"""
import copy
import runpy
import sys

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from PIL import Image

from ..helpers.checkpoints import MODEL, settings_of, write_checkpoint
from ..helpers.tools import ROOT

TOOLS = ROOT / 'tools' / 'analysis'


@pytest.fixture(autouse=True)
def mmpretrain_scope():
    init_default_scope('mmpretrain')


@pytest.fixture
def build():
    """A function that builds the tiny model with other settings."""

    def build_model(norm_pix=True, **settings):
        cfg = copy.deepcopy(MODEL)
        cfg['head']['norm_pix'] = norm_pix
        cfg.update(settings)
        torch.manual_seed(0)
        model = MODELS.build(cfg)
        model.init_weights()
        return model.eval()

    return build_model


@pytest.fixture
def images():
    """Two normalized images of 32 x 48 pixels."""
    torch.manual_seed(1)
    return torch.randn(2, 3, 32, 48)


@pytest.fixture(scope='session')
def picture():
    """A color picture of 40 x 56 pixels, RGB, uint8: smooth and textured."""
    y, x = np.mgrid[:40, :56]
    waves = 120 + 80 * np.sin(x / 3) * np.cos(y / 5)
    channels = [4 * x + 10, 5 * y + 20, waves]
    return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope='session')
def image_folder(tmp_path_factory, picture):
    """Images of several kinds in nested folders, and a corrupt one."""
    folder = tmp_path_factory.mktemp('images')
    (folder / 'inside').mkdir()
    image = Image.fromarray(picture)
    image.save(folder / 'a_rgb.png')
    image.convert('L').save(folder / 'b_grey.png')
    image.convert('RGBA').save(folder / 'c_rgba.png')
    image.convert('CMYK').save(folder / 'd_cmyk.JPG', quality=95)
    image.resize((150, 33)).save(folder / 'inside' / 'e_wide.jpg')
    content = (folder / 'inside' / 'e_wide.jpg').read_bytes()
    (folder / 'f_cut.jpg').write_bytes(content[:len(content) // 2])
    (folder / 'notes.txt').write_text('no image')
    return folder


@pytest.fixture(scope='session')
def run_folder(tmp_path_factory):
    """Configuration and two checkpoints of a run, as mmengine writes them."""
    folder = tmp_path_factory.mktemp('run')
    Config(settings_of(custom_imports=dict(
        imports=['qbheat_mm'], allow_failed_imports=False))).dump(
            folder / 'config.py')
    for epoch in (1, 2):
        write_checkpoint(folder / f'epoch_{epoch}.pth', MODEL, None, epoch)
    return folder


@pytest.fixture
def call(monkeypatch):
    """A function that calls a tool as its command does."""

    # Coarse pictures are quicker.
    monkeypatch.setattr('qbheat_mm.report.report.DPI', 40)

    def call_tool(name, *arguments):
        monkeypatch.syspath_prepend(str(TOOLS))  # of run_all
        monkeypatch.setattr(sys, 'argv', [f'{name}.py', *map(str, arguments)])
        runpy.run_path(str(TOOLS / f'{name}.py'))['main']()

    return call_tool


@pytest.fixture
def run(run_folder):
    return run_folder / 'config.py', run_folder / 'epoch_2.pth'
