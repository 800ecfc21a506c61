# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every benchmark runs and prints a comparison."""
import os
import re
import shlex
import subprocess
import sys
from argparse import Namespace

import pytest
import torch
from mmengine.hub import get_config
from mmpretrain.registry import MODELS
from torch import nn

from benchmarks.counters import kept_bytes, operator_counter
from qbheat_mm.apis import published_encoder
from qbheat_mm.config.reading import read_config
from qbheat_mm.export import export_encoder

from .helpers.exports import CASES
from .helpers.tools import ROOT, import_tool, run_tool

DEMO = shlex.quote(
    f'{ROOT}/projects/drawn_world/configs/qbheat_mf-demo_pretrain.py')
COMMON = '--threads 1 --repeats 1 --device cpu'


@pytest.fixture
def report(capsys):
    """Run a benchmark in this process; return the lines that it prints."""
    def report(tool, arguments):
        run_tool(f'../benchmarks/{tool}', *shlex.split(arguments))
        return capsys.readouterr().out.splitlines()

    return report


def test_a_step_stands_next_to_maes_and_the_limit(report):
    lines = report('pretraining.py', f'--config {DEMO} --size 64 '
                   f'--batch-size 2 {COMMON}')[-4:]
    assert re.match(r'limit: \d+ GFLOP/s', lines[1])
    # MAE's decoder and the encoder of a quarter of 16 patches: 12 D^2 of
    # each block and position, twice for the additions, thrice for gradients.
    blocks = 8 * 17 * 12 * 512**2 + 12 * 5 * 12 * 384**2
    flops = float(re.search(r'([\d.]+) GFLOP an image', lines[3])[1])
    assert flops == pytest.approx(6 * blocks / 1e9, rel=0.1)


@pytest.mark.mmdet
def test_one_command_measures_a_gpu(tmp_path):
    """A part that fails loses no others."""
    done = subprocess.run(
        [ROOT / 'benchmarks/gpu.sh', '--parts', 'runs', '--folder', 'missing'],
        cwd=tmp_path, check=True, capture_output=True, text=True,
        env=dict(os.environ, PYTHON=sys.executable, DEVICE='cpu',
                 BATCH_SIZE='2', REPEATS='1'))
    table = done.stdout.split('|---|---|\n')[1]
    assert re.match(r"\| runs \| failed: .*image 'missing' does not", table)


@pytest.mark.mmdet
def test_steps_of_a_gpu_are_timed():
    gpu = import_tool('../benchmarks/gpu.py')
    args = Namespace(size=64, device='cpu', repeats=1)
    settings = read_config(shlex.split(DEMO)[0]).model
    cells = gpu.time_step(lambda: MODELS.build(settings),
                          'bf16, channels_last', 2, args)
    assert re.fullmatch(
        r'\d+ images/s, [\d,]+ operators, \d+\.\d GiB', cells)


def test_a_pipeline_stands_next_to_mmpretrains(report):
    lines = report('input.py', '--images 2 --size 96 64 --repeats 1')[-3:]
    ratios = [float(re.search(r'([\d.]+) of', line)[1]) for line in lines]
    assert ratios[1] == 1 and min(ratios) > 0


def test_a_run_without_a_model_shows_where_its_time_goes(report):
    head, *rows = report(
        'input.py', '--workers 0 1 --cache --images 2 --size 96 64 '
        '--repeats 1 --cfg-options train_dataloader.batch_size=4')[-3:]
    assert [row.split()[0] for row in rows] == ['0', '1']
    for row in rows:
        _, rate, *parts = map(float, row.split())
        # All the time of a step of four images.
        assert sum(parts) == pytest.approx(4000 / rate, rel=0.05, abs=0.2)
    assert 'waiting' in head


def test_an_encoder_stands_next_to_mobilenet(report):
    lines = report('encoder_speed.py',
                   f'--size 64 --batch-size 2 --no-onnx {COMMON}')
    assert [line.split('  ')[0] for line in lines[-3:]] == [
        'one image, one thread', 'inference', 'training']


def test_nodes_of_an_encoder_are_timed_by_operator(report):
    pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    lines = report('encoder_profile.py', f'--size 64 {COMMON}')
    heads = [i for i, line in enumerate(lines) if line.startswith('m')]
    for start, end in zip(heads, [*heads[1:], len(lines)]):
        number = int(re.search(r'(\d+) nodes', lines[start])[1])
        assert number == sum(int(re.search(r'(\d+) nodes', line)[1])
                             for line in lines[start + 1:end])


def test_detectors_stand_next_to_each_other(report):
    pytest.importorskip('mmdet')
    rows = {line[:22].strip(): re.findall(r'[\d.]+', line[22:])
            for line in report('detectors.py',
                               f'--size 64 96 {COMMON}')[2:]}
    # 41M is the published size of DETR-R50 (41.3M with its 92 classes).
    assert float(rows['DETR-R50'][0]) == pytest.approx(41.5, rel=0.01)
    assert 'RetinaNet-R50' in rows and rows['DETR-R50'][3] == '1.00'


def test_heads_on_one_encoder_stand_next_to_separate_models(report):
    pytest.importorskip('mmdet')
    lines = report('heads.py', '--heads lin tran-1 --size 64 64 '
                   f'{COMMON}')[-2:]
    rows = [line.removeprefix('+ ').split() for line in lines]
    assert [row[0] for row in rows] == ['lin', 'tran-1']
    assert rows[0][4] == rows[0][7] == '1.00'  # the same as the model alone
    ours, theirs, ratio = map(float, rows[1][5:8])
    assert 0.5 < ratio < 0.6  # two encoders, or one
    assert ours == pytest.approx(ratio * theirs, abs=0.1)


def test_a_frozen_encoder_keeps_less_for_the_backward_pass(report):
    pytest.importorskip('mmdet')
    last = report('detectors.py', f'--train --size 64 96 --batch-size 1 '
                  f'{COMMON}')[-1]
    assert 0 < float(re.search(r'([\d.]+) kept', last)[1]) < 0.8


def test_exported_detectors_stand_next_to_each_other(report, monkeypatch):
    for package in ('mmdet', 'onnx', 'onnxruntime', 'onnxscript'):
        pytest.importorskip(package)

    def small(name, real=get_config):
        cfg = real(name)
        cfg.model.backbone.update(depth=18, base_channels=8)
        cfg.model.neck.in_channels = [64]
        cfg.model.encoder.num_layers = cfg.model.decoder.num_layers = 1
        return cfg

    monkeypatch.setattr('mmengine.hub.get_config', small)
    ways, row = report(
        'detectors.py', '--size 64 96 --repeats 1 --names DETR-R50 '
        '--ways eager onnxruntime')[-2:]
    assert ways.split()[-2:] == ['eager', 'onnxruntime']
    assert re.findall(r'\((.+?)\)', row) == ['1.00', '1.00']


def test_autograd_keeps_the_inputs_of_layers():
    net, x = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), torch.ones(5, 2)
    assert kept_bytes(net, lambda: net(x)) == 4 * (5 * 2 + 5 * 3)


def test_operators_of_a_step_without_views_and_allocations():
    net, x = nn.Linear(2, 3), torch.ones(5, 2)
    with operator_counter() as found:
        with torch.autocast('cpu', torch.bfloat16):
            loss = net(x).view(3, 5).sum()
        loss.backward()
        torch.empty_like(x).copy_(x)
    # To bfloat16: input, weight and bias; back: gradients of both.
    assert found == dict(
        _to_copy=5, addmm=1, mm=1, sum=2, ones_like=1, copy_=1)


def test_a_detector_of_ones_own_boxes(report, tmp_path):
    pytest.importorskip('mmcv.ops')
    timm = pytest.importorskip('timm')
    torch.save(timm.create_model('test_resnet').state_dict(),
               tmp_path / 'net.pth')
    encoder = export_encoder(
        published_encoder('timm/test_resnet', tmp_path / 'net.pth'),
        tmp_path / 'net.safetensors')
    CASES['plain'].write(tmp_path / 'pets')
    lines = report('own_boxes.py', f'{tmp_path}/pets --encoder {encoder} '
                   '--finetune --cfg-options train_cfg.max_iters=2')
    numbers = r'\d+ MiB, AP [\d.]+, AP50 [\d.]+ \([\d.]+ minutes to test\)$'
    for text in ('minutes of 2 cores to train',
                 'minutes more to fine-tune the whole detector'):
        [line] = [line for line in lines if text in line]
        assert re.search(rf'pets: [\d.]+ {text}, {numbers}', line)
