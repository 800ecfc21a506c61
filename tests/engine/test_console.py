# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A short console, a complete log file, readable lines, early advice."""
import contextlib
import itertools
from types import SimpleNamespace

import pytest
from mmengine.logging import MMLogger
from mmpretrain.models import SelfSupDataPreprocessor

from qbheat_mm.engine import console
from qbheat_mm.engine.console import shorten_console

from .runs import Stop, StopHook, build

REPORTS = ['fc.bias is skipped since its requires_grad=False', 'Exp name: x',
           '"FileClient" will be deprecated',
           'paramwise_options -- neck.bias:weight_decay=0.0']


@pytest.mark.parametrize('level, shown', [('INFO', 0), ('DEBUG', 4)])
def test_long_reports_are_in_the_log_file(tmp_path, capsys, level, shown):
    logger = MMLogger.get_instance(
        level, log_file=str(tmp_path / 'a.log'), log_level=level)
    shorten_console(logger)
    for text in [*REPORTS, 'loaded']:
        logger.warning(text)
    printed = capsys.readouterr().out
    written = (tmp_path / 'a.log').read_text()
    assert 'loaded' in printed and 'loaded' in written
    assert sum(text in printed for text in REPORTS) == shown
    assert all(text in written for text in REPORTS)


def test_a_progress_line_has_the_rate_of_all_processes(tmp_path):
    runner = build(tmp_path, log_processor=dict(type='ThroughputLogProcessor'))
    assert len(runner.train_loop.dataloader) == 2  # batches of two
    runner._world_size = 2
    hub = runner.message_hub
    for name, value in dict(time=0.5, data_time=0.1, lr=0.1, loss=3.).items():
        hub.update_scalar(f'train/{name}', value)
    tag, line = runner.log_processor.get_log_after_iter(runner, 0, 'train')
    assert line.endswith('loss: 3.0000  images_per_second: 8.0000')
    assert tag['images_per_second'] == 8


@pytest.fixture
def advice(tmp_path, caplog):
    """Train with the hook; return its lines."""

    def advice(preprocessor=None, hooks=(), **settings):
        runner = build(tmp_path, hooks=[dict(type='RunAdviceHook'), *hooks],
                       **settings)
        if preprocessor:  # which would not take the data
            runner.model.data_preprocessor = preprocessor
            runner.register_hook(StopHook('before_train_iter'))
        caplog.clear()
        runner.logger.addHandler(caplog.handler)
        with contextlib.suppress(Stop):
            runner.train()
        return '\n'.join(
            record.getMessage() for record in caplog.records
            if record.module == 'console')

    return advice


def test_few_images_for_pre_training(advice):
    assert advice(SelfSupDataPreprocessor()) == (
        '4 images are few for pre-training: expect useful features from '
        'about 1000 images, or use published weights')
    assert 'few' not in advice()


def test_the_expected_duration(advice, monkeypatch):
    assert not advice(epochs=5)
    clock = SimpleNamespace(monotonic=itertools.count(0, 100).__next__)
    monkeypatch.setattr(console, 'time', clock)
    monkeypatch.setattr(console, 'STEPS', 3)
    monkeypatch.setattr(console, 'SECONDS', 10**6)
    # 100 seconds for each of the four steps after three of eight
    assert advice(epochs=9, resume=True) == (
        'this run will take about 0:06:40 on this machine, plus evaluations')


def test_the_duration_with_cached_features(advice, monkeypatch):
    """The first of nine epochs, of two steps each, fills the cache."""
    clock = SimpleNamespace(monotonic=itertools.count(0, 100).__next__)
    monkeypatch.setattr(console, 'time', clock)
    monkeypatch.setattr(console, 'STEPS', 1)
    cached = advice(epochs=9, hooks=[dict(type='FrozenFeaturesHook')])
    assert 'about 0:25:00' in cached  # 15 steps are left
    assert 'about 0:28:20' in advice(epochs=9)  # 17


def test_few_steps_for_a_detector(advice):
    pytest.importorskip('mmcv.ops')
    from mmdet.models import DetDataPreprocessor
    assert '18 steps are few for a detector' in advice(
        DetDataPreprocessor(), epochs=9)
    assert 'steps are few' not in advice(epochs=9)


def test_hours_without_a_gpu(advice, monkeypatch):
    clock = SimpleNamespace(monotonic=itertools.count(0, 1000).__next__)
    monkeypatch.setattr(console, 'time', clock)
    assert 'smaller images take less' in advice(epochs=9)
