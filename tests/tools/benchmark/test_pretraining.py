# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the measurements of pre-training and of its input report."""
import re
import runpy
import sys

import pytest
import torch

from qbheat_mm.errors import UserError
from qbheat_mm.utils.profiling import KINDS, REST, time_by_kind

from ..conftest import ROOT

TOOLS = ROOT / 'tools/benchmark'


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(TOOLS))


def report(monkeypatch, capsys, tool, *args):
    monkeypatch.setattr(sys, 'argv', [tool, *args])
    runpy.run_path(str(TOOLS / tool), run_name='__main__')
    return capsys.readouterr().out.splitlines()


def test_a_step_stands_beside_maes_and_the_limit(monkeypatch, capsys):
    lines = report(
        monkeypatch, capsys, 'pretraining.py', '--config',
        str(ROOT / 'projects/drawn_world/configs/qbheat_mf-demo_pretrain.py'), '--size',
        '64', '--batch-size', '2', '--threads', '1', '--repeats', '1',
        '--device', 'cpu')[-4:]
    assert 'batch 2, 64x64, fp32' in lines[0]
    assert re.match(r'limit: \d+ GFLOP/s', lines[1])
    assert lines[2].startswith('qbheat_mf-demo_pretrain')
    assert lines[2].endswith('ours is 1.00 times as fast')
    # MAE's decoder and the encoder of a quarter of 16 patches: 12 D^2 of
    # each block and position, twice for the additions, thrice for gradients.
    blocks = 8 * 17 * 12 * 512**2 + 12 * 5 * 12 * 384**2
    flops = float(re.search(r'([\d.]+) GFLOP an image', lines[3])[1])
    assert flops == pytest.approx(6 * blocks / 1e9, rel=0.1)


def test_a_pipeline_stands_beside_mmpretrains(monkeypatch, capsys):
    lines = report(monkeypatch, capsys, 'input.py', '--images', '2',
                   '--size', '96', '64', '--repeats', '1')[-4:]
    assert lines[0].startswith('2 JPEG files, the first 96x64')
    names, ratios = zip(*(
        (line[:15].strip(), float(re.search(r'([\d.]+) of', line)[1]))
        for line in lines[1:]))
    assert names == ('ours', 'mmpretrain', 'decoding alone')
    assert ratios[1] == 1 and min(ratios) > 0


def test_what_is_no_pretraining_is_not_timed():
    settings = runpy.run_path(str(TOOLS / 'pretraining.py'))['settings']
    config = (ROOT / 'configs/qbheat/benchmarks/'
              'mf-285m_8xb512-linear-coslr-90e_in1k.py')
    with pytest.raises(UserError, match="model.type='ImageClassifier'"):
        settings(str(config))


def test_mmpretrains_transforms_stand_for_ours():
    tool = runpy.run_path(str(TOOLS / 'input.py'))
    steps = tool['read_config'](tool['CONFIG']).train_dataloader.dataset
    theirs = [tool['of_mmpretrain'](step) for step in steps.pipeline]
    assert theirs[0] == dict(type='LoadImageFromFile')
    assert theirs[1] == dict(
        type='RandomResizedCrop', backend='pillow', interpolation='bicubic',
        scale=256, crop_ratio_range=(0.2, 1.0))
    assert theirs[2:] == list(steps.pipeline[2:])


def test_an_encoder_stands_beside_mobilenet(monkeypatch, capsys):
    lines = report(monkeypatch, capsys, 'encoder_speed.py', '--size', '64',
                   '--batch-size', '2', '--repeats', '1', '--threads', '1',
                   '--device', 'cpu')[-2:]
    assert [line.split()[0] for line in lines] == ['inference', 'training']
    assert all(re.search(r'ratio \d+\.\d\d$', line) for line in lines)


def test_an_exponent_is_the_power_of_the_time():
    exponent = runpy.run_path(str(TOOLS / 'scaling.py'))['exponent']
    assert exponent({2: 3., 4: 12., 8: 48.}) == pytest.approx(2)
    assert exponent({1: 5., 100: 5.}) == pytest.approx(0, abs=1e-9)


def test_every_kind_has_a_share():
    query = torch.randn(2, 4, 64, 16)
    shares = time_by_kind(
        lambda: torch.nn.functional.scaled_dot_product_attention(
            query, query, query), 'cpu')
    assert set(shares) == {*KINDS, REST}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares['attention'] > 0 == shares['convolutions']
