# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Mistakes in calls of embed.py, knn.py and export.py; unusual images."""
import runpy
import sys

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from qbheat_mm.apis import embed, load_encoder
from qbheat_mm.engine.checkpoint import read
from qbheat_mm.errors import UserError

from .conftest import MODEL, TOOLS, settings_of, write_checkpoint


@pytest.fixture
def here(tmp_path, monkeypatch, checkpoint):
    """The current folder: checkpoints of all kinds, images, and none."""
    monkeypatch.chdir(tmp_path)
    content = read(checkpoint)
    torch.save(content, 'good.pth')
    torch.save(content['state_dict'], 'bare.pth')
    content['state_dict']['backbone.stem.0.weight'] *= torch.nan
    torch.save(content, 'nan.pth')
    torch.save(dict(content, state_dict={}), 'empty.pth')
    Config(settings_of()).dump('config.py')
    random = np.random.default_rng(0)
    for name in ('images/a.png', 'classes/red/a.png', 'classes/blue/b.png'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(name, random.integers(0, 255, (40, 50, 3), np.uint8))
    (tmp_path / 'cut.png').write_bytes(
        (tmp_path / 'images/a.png').read_bytes()[:99])
    (tmp_path / 'folder/inside').mkdir(parents=True)
    return tmp_path


EMBED = 'embed.py {} images --out x.npz'
KNN = 'knn.py {} classes'
EXPORT = 'export.py config.py {} --format safetensors --out x.safetensors'
CALLS = [
    *((tool.format(name), name) for tool in (EMBED, KNN, EXPORT)
      for name in ('nowhere.pth', 'folder', 'images/a.png', 'nan.pth',
                   'empty.pth')),
    *((tool.format('bare.pth'), 'bare.pth') for tool in (EMBED, KNN)),
    ('embed.py bare.pth images --out x.npz --config no_such', 'no_such'),
    ('embed.py good.pth folder --out x.npz', 'folder'),
    ('embed.py good.pth nowhere --out x.npz', 'nowhere'),
    ('embed.py good.pth cut.png --out x.csv', 'cut.png'),
    ('embed.py good.pth good.pth --out x.npz', 'good.pth'),
    ('embed.py good.pth images --out x.h5', 'x.h5'),
    ('embed.py good.pth images --out folder', 'folder'),
    ('embed.py good.pth images --out good.pth/x.npz', 'good.pth'),
    ('embed.py good.pth images --out x.npz --pool mean', 'mean'),
    ('embed.py good.pth images --out x.npz --size 1 2 3', 'size=[1, 2, 3]'),
    ('embed.py good.pth images --out x.npz --device tpu', 'tpu'),
    ('knn.py good.pth images', 'images'),
    ('knn.py good.pth nowhere', 'nowhere'),
    ('knn.py good.pth good.pth', 'good.pth'),
    ('knn.py good.pth classes folder', 'folder'),
    ('knn.py good.pth classes --k 0', "'0'"),
    ('export.py config.py good.pth --format pt2 --out x.onnx', 'x.onnx'),
    ('export.py config.py good.pth --format safetensors --out '
     'good.pth/x.safetensors', 'good.pth'),
    ('export.py nowhere.py good.pth --format safetensors --out '
     'x.safetensors', 'nowhere.py')]


@pytest.mark.parametrize('command, words', CALLS)
def test_the_last_line_names_the_mistake_and_nothing_is_left(
        command, words, here, monkeypatch, capsys):
    before = sorted(here.rglob('*'))
    name, *arguments = command.split()
    monkeypatch.setattr(sys, 'argv', [name, *arguments])
    with pytest.raises((Exception, SystemExit)) as end:
        runpy.run_path(str(TOOLS / name), run_name='__main__')
    line = str(end.value)
    if line == '2':  # argparse has printed it
        line = capsys.readouterr().err
    assert words in line.strip().splitlines()[-1]
    assert sorted(here.rglob('*')) == before


def test_pictures_of_every_depth(here, checkpoint):
    """Grey, with alpha, of 16 bits: as the RGB picture of 8 bits."""
    encoder = load_encoder(checkpoint)
    grey = cv2.imread('images/a.png', cv2.IMREAD_GRAYSCALE)
    rgb = np.stack([grey] * 3, -1)
    files = {
        'grey': grey, 'alpha': np.dstack([rgb, grey // 2]),
        'deep': grey.astype(np.uint16) * 256 + 77}
    wanted = embed(encoder, rgb).embeddings
    for name, pixels in files.items():
        cv2.imwrite(f'{name}.png', pixels)
        for image in (f'{name}.png', Image.open(f'{name}.png')):
            np.testing.assert_allclose(
                embed(encoder, image).embeddings, wanted, atol=1e-5,
                err_msg=f'{name} {type(image)}')


@pytest.mark.parametrize('side', [1, 3])
def test_images_smaller_than_the_stride(side, here, checkpoint):
    pixels = np.full((side, side, 3), 99, np.uint8)
    for size in (side, 0, None):
        found = embed(checkpoint, pixels, size=size).embeddings
        assert found.shape == (1, 20) and np.isfinite(found).all()


def test_a_checkpoint_of_damaged_settings(tmp_path):
    for text in ('model = 3', 'model = dict(backbone=3)', '(', ''):
        write_checkpoint(tmp_path / 'x.pth', MODEL, text)
        with pytest.raises(UserError, match='x.pth'):
            load_encoder(tmp_path / 'x.pth')
