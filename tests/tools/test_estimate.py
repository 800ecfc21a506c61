# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a run will cost, from real steps of tiny models."""
import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from qbheat_mm.analysis.accelerators import (
    SLOW_HOST,
    SPREAD,
    Work,
    times,
)
from qbheat_mm.analysis.run_cost import TrainingRun, count_steps
from qbheat_mm.cli import read_config

from ..conftest import ROOT, import_tool, run_tool

LINEAR = 'mf-285m_8xb512-linear-coslr-90e_in1k'


@pytest.fixture
def estimate(capsys):
    """Run the tool in this process; return what it prints."""
    def estimate(*arguments):
        run_tool('estimate.py', *arguments)
        return capsys.readouterr().out

    return estimate


def number(pattern, text):
    return float(re.search(pattern, text)[1].replace(',', ''))


def passes(text):
    """Multiply-adds forward, and in a training step."""
    return (number(r'([\d.e-]+) G multiply-adds per image forward', text),
            number(r'([\d.e-]+) with the backward pass', text))


def test_a_pretraining(estimate, pretraining_config):
    text = estimate(pretraining_config, '--accelerator', 'a100', '--gpus', 2)
    assert '2 steps of 2 x 2 images: 1 epochs of 8 images (counted)' in text
    forward, step = passes(text)
    assert step == pytest.approx(3 * forward, rel=0.02)
    assert number(r'here +([\d.e+]+) images/s', text) > 0
    assert number(r'input +([\d,]+) images/s', text) > 0
    assert number(r'MiB: parameters ([\d,]+)', text) >= 0
    # Four images a step, on two GPUs.
    rate = 4 / (number(r'GPU\'s host launches in ([\d.]+) ms', text) / 1e3)
    low, high = re.search(r'^a100 .* (\d+) to (\d+)  launches +[\d.]+ to '
                          r'[\d.]+$', text, re.M).groups()
    assert int(low) == pytest.approx(rate / SLOW_HOST, rel=0.01)
    assert int(high) == pytest.approx(rate * SPREAD, rel=0.01)


def test_own_images_cost_little_and_the_papers_decoder_is_one_config_away():
    for name, low, high in (('1xb64-amp-coslr-80e', 0, 0.1e9),
                            ('1xb256-amp-coslr-400e', 5e9, 6e9)):
        run = TrainingRun(read_config(
            ROOT / f'configs/qbheat/qbheat_mf-285m_{name}_own-images.py'),
            'cpu', gpus=1, images=3000)
        assert low < run.forward < high


def test_a_batch_is_lowered_to_a_small_folder(estimate, pretraining_config):
    """As in training, and its only batch isn't dropped."""
    options = ['--cfg-options', 'train_dataloader.batch_size=64',
               'train_dataloader.drop_last=True']
    text = estimate(pretraining_config, '--gpus', 2, *options)
    assert '1 steps of 2 x 4 images: 1 epochs of 8 images (counted)' in text
    assert '1 x 7 images' in estimate(
        pretraining_config, '--images', 7, *options)
    with pytest.raises(SystemExit, match='gets 1 images .* at least 2'):
        estimate(pretraining_config, '--gpus', 8, *options)


@pytest.mark.parametrize('config, classes', [
    ('detector_config', '117,266'), ('classifier_config', '')])
def test_runs_without_their_data(estimate, request, config, classes):
    """A detector's encoder is frozen, and its images are drawn."""
    if config == 'detector_config':
        pytest.importorskip('mmdet')
    path = request.getfixturevalue(config)
    options = ['--cfg-options', 'train_dataloader.dataset.data_root=nowhere']
    with pytest.raises(SystemExit, match='nowhere.*--images N'):
        estimate(path, *options)
    text = estimate(path, '--images', 1000, *options)
    assert '1,000 images (as given)' in text and 'synthetic JPEG file' in text
    forward, step = passes(text)
    assert (step < 2.9 * forward) == (config == 'detector_config')
    if classes:
        text = estimate(path, '--table', *options[:2], (
            'train_dataloader.dataset.ann_file=annotations/'
            'instances_train2017.json'), options[1])
        assert f'| {117266 // 2:,} |' in text


def test_the_page_has_the_computed_hours(estimate):
    name = f'{LINEAR}.py'
    table = estimate('--table', ROOT / 'configs/qbheat/benchmarks' / name)
    page = (ROOT / 'docs/estimate.md').read_text()
    head, rule, row = table.splitlines()[-3:]
    assert all(line in page for line in (head, rule, row))


def test_steps_are_those_of_the_loader():
    loader = dict(drop_last=True)
    cfg = dict(train_dataloader=loader, train_cfg=dict(max_epochs=100))
    assert count_steps(cfg, 1281167, 1024) == 125100
    loader['drop_last'] = False
    assert count_steps(cfg, 1281167, 1024) == 125200
    cfg['train_cfg'] = dict(max_iters=90000)
    assert count_steps(cfg, 1281167, 1024) == 90000


CALIBRATION = import_tool('benchmark/calibration.py')


@pytest.mark.parametrize('row', CALIBRATION.ROWS, ids=(
    '{0.name} {0.accelerator} {0.precision}'.format))
def test_computed_rates_are_near_measured_ones(row):
    rate = row.batch_size / max(CALIBRATION.computed(row).values())
    assert row.rate / SPREAD < rate < row.rate * SPREAD


@pytest.mark.parametrize('row', CALIBRATION.SLOW, ids=lambda row: row.name)
def test_the_printed_range_covers_a_slow_host(row):
    rate = row.batch_size / max(CALIBRATION.computed(row).values())
    assert rate / SLOW_HOST < row.rate < rate * SPREAD


def test_the_page_has_the_measured_rates(capsys):
    CALIBRATION.main()
    table = capsys.readouterr().out.split('\n\n')[0]
    assert table in (ROOT / 'docs/estimate.md').read_text()


def test_float32_has_another_peak():
    work = Work(1e12, 0, 0)
    half, single = (times(work, 'v100', half)['arithmetic']
                    for half in (True, False))
    assert single / half == pytest.approx(125 / 15.7)


def test_few_images_give_the_work_of_a_batch(classifier_config):
    cfg = read_config(classifier_config)
    cfg.train_dataloader.batch_size = 8
    run = TrainingRun(cfg, 'cpu', 1, 1000)
    operators, moved = run._count_step(8)
    assert run.work.operators == operators
    assert run.work.moved == pytest.approx(moved, rel=1e-3)
    assert run.work.madds == 8 * run.madds


def test_memory_is_that_of_a_step():
    run = object.__new__(TrainingRun)
    run.batch_size, run.activations = 4, 10.
    run.model = nn.Sequential(nn.Linear(2, 3).requires_grad_(False),
                              nn.Linear(3, 1))
    optimizer = torch.optim.SGD(run.model[1].parameters(), 1., momentum=0.9)
    run.optimizer = SimpleNamespace(optimizer=optimizer)
    run.model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert run.memory() == dict(
        parameters=4 * (9 + 4), gradients=4 * 4, optimizer=4 * 4,
        activations=4 * 10)
