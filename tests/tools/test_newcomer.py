# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The README's way from a folder of images to boxes that are drawn.

The commands are the README's own; added are settings that
docs/own_data.md names: two epochs, small images, no further processes.
"""
import json
import re
import runpy
import shlex
import string
import sys
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

import qbheat_mm

from .conftest import ROOT

README = (ROOT / 'README.md').read_text()
MANUAL = (ROOT / 'docs/own_data.md').read_text()

ANYWHERE = ['train_cfg.max_epochs=2', 'train_dataloader.num_workers=0']
VALIDATED = [*ANYWHERE, 'val_dataloader.num_workers=0']
OPTIONS = dict(
    images=[*ANYWHERE, 'train_dataloader.dataset.pipeline.0.scale=64'],
    folders=[*VALIDATED, 'train_dataloader.dataset.pipeline.0.scale=64',
             'val_dataloader.dataset.pipeline.1.scale=64',
             'val_dataloader.dataset.pipeline.2.crop_size=64'],
    boxes=[*VALIDATED,
           'train_dataloader.dataset.pipeline.2.scale=(64,64)',
           'val_dataloader.dataset.pipeline.1.scale=(64,64)'])


@pytest.fixture(autouse=True)
def quiet_runner(monkeypatch):
    """Runners that do not ask the machine for its compilers."""
    monkeypatch.setattr(Runner, '_log_env', lambda self, env_cfg: None)


def section():
    start = README.index('### Own data')
    return README[start:README.index('\n## ', start)]


def commands():
    """The shell lines of the section, continued ones joined."""
    block = re.search(r'```bash\n(.*?)```', section(), re.S).group(1)
    joined = block.replace('\\\n', ' ').split('\n')
    return [line for line in joined if line and not line.startswith('#')]


@pytest.fixture(scope='module')
def home(tmp_path_factory):
    """A folder with the project's tools, and the data of a newcomer."""
    home = tmp_path_factory.mktemp('home')
    for name in ('configs', 'tools'):
        (home / name).symlink_to(ROOT / name)
    random = np.random.default_rng(0)

    def draw(path):
        mmcv.imwrite(random.integers(0, 255, (64, 64, 3), dtype=np.uint8),
                     str(home / path))

    for i in range(20):
        draw(f'my_images/{i}.png')
    for split, name in (('train', 'cat'), ('train', 'dog'), ('val', 'cat'),
                        ('val', 'dog')):
        for i in range(3):
            draw(f'data/own/{split}/{name}/{i}.png')
    images, boxes = [], []
    for i in range(10):
        draw(f'data/own/images/{i}.png')
        images.append(dict(id=i, file_name=f'{i}.png', width=64, height=64))
        boxes.append(dict(id=i + 1, image_id=i, category_id=i % 2 + 1,
                          bbox=[8, 8, 40, 32], area=1280, iscrowd=0))
    content = json.dumps(dict(
        images=images, annotations=boxes,
        categories=[dict(id=1, name='first'), dict(id=2, name='second')]))
    (home / 'data/own/annotations').mkdir()
    for split in ('train', 'val'):
        (home / f'data/own/annotations/{split}.json').write_text(content)
    draw('image.png')
    (home / 'my_boxes.py').write_text(
        re.search(r'```python\n(.*?)```', section(), re.S).group(1))
    return home


def run_as_written(line, options, variables, monkeypatch):
    """Run one command in this process, as python would."""
    line = re.sub(r'epoch_\d+', 'epoch_2',
                  string.Template(line).substitute(variables))
    program, *argv = shlex.split(line)
    assert program == 'python'
    if argv[0] == '-c':
        exec(compile(argv[1], 'command', 'exec'), {})
        return
    assert '--cfg-options' in argv
    monkeypatch.setattr(sys, 'argv', [*argv, *options])
    runpy.run_path(argv[0], run_name='__main__')


def test_the_manual_names_the_settings_that_are_added():
    for option in sum(OPTIONS.values(), []):
        assert option.split('=')[0] in MANUAL, option


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs no GPU')
def test_from_images_to_drawn_boxes(home, monkeypatch, capfd):
    pytest.importorskip('mmcv.ops')
    monkeypatch.chdir(home)
    variables, options = {}, list(OPTIONS.values())
    for line in commands():
        assignment = re.fullmatch(r'(\w+)=(\S+)', line)
        if assignment:
            variables[assignment[1]] = assignment[2]
        else:
            run_as_written(line, options.pop(0) if options else [],
                           variables, monkeypatch)
    printed = ''.join(capfd.readouterr())
    assert 'training in float32' in printed
    assert 'train_dataloader.batch_size=20' in printed  # 20 images
    assert 'train_dataloader.batch_size=6' in printed  # of two classes
    assert 'train_dataloader.batch_size=10' in printed  # with boxes
    assert re.search(r'accuracy/top1: \d', printed)
    # Two steps find nothing, which mmdet says in words.
    assert 'Evaluating bbox' in printed
    encoder = torch.load(home / re.sub(r'epoch_\d+', 'epoch_2',
                                       variables['ENCODER']),
                         weights_only=False)['state_dict']
    for name in ('mf-285m_1xb256-tran1-coslr-200e_own-folders', 'my_boxes'):
        trained = torch.load(home / f'work_dirs/{name}/epoch_2.pth',
                             weights_only=False)['state_dict']
        for key, tensor in encoder.items():
            if key.startswith('backbone.'):
                assert torch.equal(trained[key], tensor), key
    drawn = mmcv.imread(str(home / 'found/vis/image.png'))
    assert drawn.shape[2] == 3


@pytest.mark.skipif(not (Path(qbheat_mm.__file__).parent / '.mim').exists(),
                    reason='the package is not installed')
def test_a_configuration_anywhere_inherits_from_the_installed_ones(tmp_path):
    base = re.search(r'```python\n(_base_ = .*?)```', MANUAL, re.S).group(1)
    rest = re.search(r'```python\n_base_ = .*?\n(.*?)```', section(),
                     re.S).group(1).replace("'second'", "'second', 'third'")
    (tmp_path / 'my_boxes.py').write_text(base + rest)
    cfg = Config.fromfile(tmp_path / 'my_boxes.py')
    assert cfg.model.bbox_head.num_classes == 3
    for part in ('train', 'val', 'test'):
        assert cfg[f'{part}_dataloader'].dataset.metainfo.classes == (
            'first', 'second', 'third')
    assert cfg.runner_type == 'AutoScaleRunner'
