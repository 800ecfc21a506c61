# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The README's commands, from a folder of images to a detector.

With settings for two epochs of small images in one process.
"""
import json
import re
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

import qbheat_mm

from ..docs.reading import read_blocks
from ..docs.running import Page
from .conftest import ROOT

BLOCKS = [block for block in read_blocks('README.md')
          if block.tested == 'tests/tools/test_newcomer.py']
SHELL = [block for block in BLOCKS if block.language == 'bash']
BOXES, = [block.text for block in BLOCKS if block.language == 'python']
ANYWHERE = ['train_cfg.max_epochs=2', 'train_dataloader.num_workers=0']
VALIDATED = [*ANYWHERE, 'val_dataloader.num_workers=0']
ADDED = {
    'train_dataloader.dataset.data_root=my_images': [
        *ANYWHERE, 'train_dataloader.dataset.pipeline.0.scale=64'],
    '--work-dir runs/classes --cfg-options': [
        *VALIDATED, 'train_dataloader.dataset.pipeline.0.scale=64',
        'val_dataloader.dataset.pipeline.1.scale=64',
        'val_dataloader.dataset.pipeline.2.crop_size=64'],
    '--work-dir runs/boxes --cfg-options': [
        *VALIDATED, 'train_dataloader.dataset.pipeline.2.scale=(64,64)',
        'val_dataloader.dataset.pipeline.1.scale=(64,64)']}


@pytest.fixture
def home(tmp_path):
    """The data of a newcomer."""
    random = np.random.default_rng(0)

    def draw(path):
        mmcv.imwrite(random.integers(0, 255, (64, 64, 3), dtype=np.uint8),
                     str(tmp_path / path))

    for i in range(20):
        draw(f'my_images/{i}.png')
    for i in range(12):
        split = 'train' if i < 6 else 'val'
        draw(f'data/own/{split}/{("cat", "dog")[i % 2]}/{i}.png')
    images, boxes = [], []
    for i in range(10):
        draw(f'data/own/images/{i}.png')
        images.append(dict(id=i, file_name=f'{i}.png', width=64, height=64))
        boxes.append(dict(id=i + 1, image_id=i, category_id=i % 2 + 1,
                          bbox=[8, 8, 40, 32], area=1280, iscrowd=0))
    content = json.dumps(dict(
        images=images, annotations=boxes,
        categories=[dict(id=1, name='first'), dict(id=2, name='second')]))
    (tmp_path / 'data/own/annotations').mkdir()
    for split in ('train', 'val'):
        (tmp_path / f'data/own/annotations/{split}.json').write_text(content)
    draw('image.png')
    (tmp_path / 'my_boxes.py').write_text(BOXES)
    for name in ('configs', 'tools'):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs no GPU')
def test_from_images_to_a_detector(home, monkeypatch, capfd, forget):
    pytest.importorskip('mmcv.ops')
    monkeypatch.setattr(Runner, '_log_env', lambda self, env_cfg: None)
    page = Page(home, monkeypatch, forget, {
        text: f'{text} {" ".join(added)}' for text, added in ADDED.items()})
    page.run(SHELL)
    printed = ''.join(capfd.readouterr())
    for line in ('training in float32', 'train_dataloader.batch_size=20',
                 'train_dataloader.batch_size=6',
                 'train_dataloader.batch_size=10', 'Evaluating bbox'):
        assert line in printed
    assert re.search(r'accuracy/top1: \d', printed)
    encoder = load(home / 'runs/mine/epoch_2.pth')
    for run in ('classes', 'boxes'):
        trained = load(home / f'runs/{run}/epoch_2.pth')
        for key, tensor in encoder.items():
            if key.startswith('backbone.'):
                assert torch.equal(trained[key], tensor), key
    assert (home / 'runs/mine/encoder.onnx').stat().st_size > 1e6
    image, = json.loads(
        (home / 'found/predictions.json').read_text())['images']
    assert image['found']['classes'][0]['class'] in ('cat', 'dog')
    assert 'boxes' in image['found']


def load(file):
    return torch.load(file, weights_only=False)['state_dict']


@pytest.mark.skipif(not (Path(qbheat_mm.__file__).parent / '.mim').exists(),
                    reason='the package is not installed')
def test_a_config_anywhere_inherits_from_the_installed_ones(tmp_path):
    (tmp_path / 'my_boxes.py').write_text(BOXES.replace(
        "'configs/", f"'{Path(qbheat_mm.__file__).parent}/.mim/configs/"))
    cfg = Config.fromfile(tmp_path / 'my_boxes.py')
    for part in ('train', 'val', 'test'):
        assert cfg[f'{part}_dataloader'].dataset.metainfo.classes == (
            'first', 'second')
    assert cfg.runner_type == 'AutoScaleRunner'
