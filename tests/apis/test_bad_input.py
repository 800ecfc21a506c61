# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Mistakes in calls of embed.py, knn.py and export.py."""
import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

from qbheat_mm.trained.safe_load import safe_load

from ..helpers.checkpoints import settings_of
from ..helpers.tools import run_tool


@pytest.fixture
def here(tmp_path, monkeypatch, checkpoint):
    """The current folder, with checkpoints and images of all kinds."""
    monkeypatch.chdir(tmp_path)
    content = safe_load(checkpoint)
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
    ('embed.py good.pth cut.png --out x.npz', 'cut.png'),
    ('embed.py good.pth good.pth --out x.npz', 'good.pth'),
    ('embed.py good.pth images --out x.h5', 'must end in .npz'),
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
    ('knn.py good.pth classes --cfg-options a=1',
     "'good.pth' is a checkpoint"),
    ('knn.py config.py classes --config config.py', 'omit one'),
    ('export.py config.py good.pth --format pt2 --out x.onnx', 'x.onnx'),
    ('export.py config.py good.pth --format safetensors --out '
     'good.pth/x.safetensors', 'good.pth'),
    ('export.py nowhere.py good.pth --format safetensors --out '
     'x.safetensors', 'nowhere.py')]


@pytest.mark.parametrize('command, words', CALLS)
def test_the_last_line_names_the_mistake_and_nothing_is_left(
        command, words, here, capsys):
    before = sorted(here.rglob('*'))
    with pytest.raises((Exception, SystemExit)) as end:
        run_tool(*command.split())
    line = str(end.value)
    if line == '2':  # argparse has printed it
        line = capsys.readouterr().err
    assert words in line.strip().splitlines()[-1]
    assert sorted(here.rglob('*')) == before
