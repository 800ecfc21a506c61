# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The README's commands, from a folder of images to a detector.

With settings for two epochs of small images in one process.
"""
import json
import re

import pytest
import torch

from ..helpers.exports import CASES
from ..helpers.pages import read_blocks
from ..helpers.running import Page
from ..helpers.shipped import write_classes, write_image
from ..helpers.tools import ROOT

BLOCKS = [block for block in read_blocks('README.md')
          if block.tested == 'tests/tools/test_newcomer.py']
SHELL = [block for block in BLOCKS if block.language == 'bash']
ANYWHERE = ['train_cfg.max_epochs=2', 'train_dataloader.num_workers=0']
VALIDATED = [*ANYWHERE, 'val_dataloader.num_workers=0']
ADDED = {
    'train_dataloader.dataset.data_root=my_images': [
        *ANYWHERE, 'train_dataloader.dataset.pipeline.0.scale=64'],
    '--work-dir runs/classes \\\n    --cfg-options': [
        *VALIDATED, *(
            f'{part}_dataloader.dataset.pipeline.{option}=64'
            for part in ('train', 'val')
            for option in ('1.scale', '2.crop_size'))],
    '--work-dir runs/boxes \\\n    --cfg-options': [
        'train_cfg.max_iters=2',
        'train_dataloader.dataset.pipeline.2.scale=(64,64)',
        'val_dataloader.dataset.pipeline.1.scale=(64,64)']}


@pytest.fixture
def home(tmp_path):
    """The data of a newcomer."""
    for i in range(20):
        write_image(tmp_path / f'my_images/{i}.png')
    write_classes(tmp_path / 'my_classes/train', 'ab')
    write_classes(tmp_path / 'my_classes/val', 'ab')
    CASES['plain'].write(tmp_path / 'my_export')
    write_image(tmp_path / 'image.png')
    for name in ('configs', 'tools'):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs no GPU')
def test_from_images_to_a_detector(home, monkeypatch, capfd, forget):
    pytest.importorskip('mmcv.ops')
    page = Page(home, monkeypatch, forget, {
        text: f'{text} {" ".join(added)}' for text, added in ADDED.items()})
    page.run(SHELL)
    printed = ''.join(capfd.readouterr())
    for line in ('training in float32', 'batch_size: 64 -> 20',
                 'validation, step 2: AP 0', '--out looks/boxes'):
        assert line in printed
    assert re.search(r'accuracy/top1: \d', printed)
    # All is well, and mmengine's reports are in the log files.
    assert 'ERROR' not in printed and 'System environment' not in printed
    encoder = load(home / 'runs/mine/epoch_2.pth')
    for run in ('classes/epoch_2', 'boxes/iter_2'):
        trained = load(home / f'runs/{run}.pth')
        for key, tensor in encoder.items():
            if key.startswith('backbone.'):
                assert torch.equal(trained[key], tensor), key
    assert (home / 'runs/mine/encoder.onnx').stat().st_size > 1e6
    image, = json.loads(
        (home / 'found/predictions.json').read_text())['images']
    assert image['found']['classes'][0]['class'] in ('a', 'b')
    found = image['found']['boxes']
    assert ('boxes: nothing scores 0.3 or more' in printed) is not bool(found)


def load(file):
    return torch.load(file, weights_only=False)['state_dict']
