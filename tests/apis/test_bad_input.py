# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a user gets wrong when taking an encoder away ends in one line."""
import json
import runpy
import sys

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from qbheat_mm.analysis.report import Report
from qbheat_mm.apis import build_encoder, embed, load_encoder, pretrain
from qbheat_mm.compat import load_checkpoint
from qbheat_mm.errors import UserError

from .conftest import MODEL, TOOLS, settings_of, write_checkpoint


@pytest.fixture
def here(tmp_path, monkeypatch, checkpoint):
    """The current folder: checkpoints of all kinds, images, and none."""
    monkeypatch.chdir(tmp_path)
    content = load_checkpoint(checkpoint)
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
    (tmp_path / 'report').mkdir()
    (tmp_path / 'report/a.json').write_text(json.dumps(Report(
        analysis='spectrum', title='a', caption='b',
        pictures=['gone.png']).as_json()))
    return tmp_path


EMBED = 'embed.py {} images --out x.npz'
KNN = 'knn.py {} classes'
EXPORT = 'export.py config.py {} --format safetensors --out x.safetensors'
CHECKPOINTS = [
    ('nowhere.pth', 'does not exist'), ('folder', 'is a folder'),
    ('images/a.png', 'it is a picture'), ('nan.pth', 'NaN or infinite'),
    ('empty.pth', 'no tensors at all')]
CALLS = [
    *((tool.format(name), words) for name, words in CHECKPOINTS
      for tool in (EMBED, KNN, EXPORT)),
    *((tool.format('bare.pth'), 'does not say which encoder it holds')
      for tool in (EMBED, KNN)),
    ('embed.py bare.pth images --out x.npz --config no_such',
     "'no_such' does not exist"),
    ('embed.py good.pth folder --out x.npz', 'holds no image'),
    ('embed.py good.pth nowhere --out x.npz', "'nowhere' does not exist"),
    ('embed.py good.pth cut.png --out x.csv', 'none of 1 images'),
    ('embed.py good.pth good.pth --out x.npz', 'none of 1 images'),
    ('embed.py good.pth images --out x.h5', '.npz, .csv, .parquet'),
    ('embed.py good.pth images --out folder', "'folder' is a folder"),
    ('embed.py good.pth images --out good.pth/x.npz', 'is in the way'),
    ('embed.py good.pth images --out x.npz --pool mean', "choice: 'mean'"),
    ('embed.py good.pth images --out x.npz --size 1 2 3', 'size=[1, 2, 3]'),
    ('embed.py good.pth images --out x.npz --batch-size 0', "'0' is not a"),
    ('embed.py good.pth images --out x.npz --device tpu', "'tpu' is no devi"),
    ('knn.py good.pth images', 'correct the folder, which is to hold'),
    ('knn.py good.pth nowhere', "'nowhere' does not exist"),
    ('knn.py good.pth good.pth', 'is no folder'),
    ('knn.py good.pth classes folder', 'correct the folder, which is to'),
    ('knn.py good.pth classes --out folder', "'folder' is a folder"),
    ('knn.py good.pth classes --k 0', "'0' is not a positive integer"),
    ('knn.py good.pth classes --temperature 0',
     "'0' is not a number above 0"),
    ('export.py config.py good.pth --format tflite --out x', "'tflite'"),
    ('export.py config.py good.pth --format pt2 --out x.onnx', 'must end in'),
    ('export.py config.py good.pth --format safetensors --out '
     'good.pth/x.safetensors', 'is in the way'),
    ('export.py nowhere.py good.pth --format safetensors --out '
     'x.safetensors', "'nowhere.py' does not exist"),
    ('analysis/story.py nowhere', "'nowhere' is no folder"),
    ('analysis/story.py folder', 'holds no report'),
    ('analysis/story.py good.pth', "'good.pth' is no folder"),
    ('analysis/story.py report --out folder', "'folder' is a folder"),
]


@pytest.mark.parametrize('command, words', CALLS)
def test_a_tool_ends_in_one_line_and_leaves_nothing(command, words, here,
                                                    monkeypatch, capsys):
    before = sorted(here.rglob('*'))
    name, *arguments = command.split()
    monkeypatch.setattr(sys, 'argv', [name, *arguments])
    monkeypatch.syspath_prepend(str((TOOLS / name).parent))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(TOOLS / name), run_name='__main__')
    line = end.value.code
    if line == 2:  # argparse has printed it
        line = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in line and 'error: ' in line and '\n' not in line
    assert sorted(here.rglob('*')) == before


TYPES = [
    (lambda: load_encoder(3), 'checkpoint=3 must be a path'),
    (lambda: load_encoder(''), "checkpoint='' must be a path"),
    (lambda: load_encoder('bare.pth', 3), 'config=3 must be a file'),
    (lambda: load_encoder('good.pth', out_indices=3), 'out_indices=3 must be'),
    (lambda: load_encoder('good.pth', out_indices=(9, )), 'out_indices=(9,)'),
    (lambda: build_encoder(None), 'config=None must be a file'),
    (lambda: embed(3, 'images'), 'encoder=3 must be a checkpoint'),
    (lambda: embed('good.pth', 3), 'int is no image'),
    (lambda: embed('good.pth', None), 'NoneType is no image'),
    (lambda: embed('good.pth', 'images', size='8'), "size='8'"),
    (lambda: embed('good.pth', Image.new('F', (9, 9))), "mode 'F'"),
    (lambda: pretrain(3, 'out'), 'images=3 must be a path'),
    (lambda: pretrain([], 'out'), 'images=[] must be a path'),
    (lambda: pretrain('images', 3), 'out=3 must be a path'),
    (lambda: pretrain('images', 'good.pth'), "out='good.pth' is a file"),
    (lambda: pretrain('images', 'out', arch=3), 'arch=3 must be text'),
    (lambda: pretrain('images', 'out', epochs=1.5), 'epochs=1.5 must be'),
    (lambda: pretrain('images', 'out', epochs=0), 'epochs=0 must be'),
    (lambda: pretrain('images', 'out', batch_size=0), 'batch_size=0 must'),
    (lambda: pretrain('images', 'out', size=100), 'size=100 must be a mult'),
    (lambda: pretrain('images', 'out', workers=-1), 'workers=-1 must be'),
    (lambda: pretrain('images', 'out', resume=1), 'resume=1 must be True'),
    (lambda: pretrain('images', 'out', options=[1]), 'options=[1] must be'),
    (lambda: pretrain('images', 'out', options={'modl.arch': 1}),
     'options modl.arch: '),
    (lambda: pretrain('images', 'out', options={
        'train_cfg.max_epochs': 0}), 'options train_cfg.max_epochs=0')]


@pytest.mark.parametrize('call, words', TYPES)
def test_a_wrong_argument_is_named(call, words, here):
    with pytest.raises(UserError) as error:
        call()
    assert words in str(error.value) and '\n' not in str(error.value)
    assert '--cfg-options' not in str(error.value)
    assert not (here / 'out').exists()


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
        with pytest.raises(UserError, match='does not say'):
            load_encoder(tmp_path / 'x.pth')
