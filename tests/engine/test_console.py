# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A short console, a complete log file, readable lines, early advice."""
import contextlib

import pytest
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmpretrain.models import SelfSupDataPreprocessor

from qbheat_mm.engine import console
from qbheat_mm.engine.console import set_console_level, shorten_console

from ..helpers.runs import Stop, StopHook, build

REPORTS = ['fc.bias is skipped since its requires_grad=False', 'Exp name: x',
           '"FileClient" will be deprecated',
           'paramwise_options -- neck.bias:weight_decay=0.0',
           'Evaluating bbox...', 'bbox_mAP_copypaste: 0.458 0.797 0.489',
           'The prefix is not set in metric class DumpDetResults.',
           'LR is set based on batch size of 8.0 and the current batch size '
           'is 8. Scaling the original LR by 1.0.']
SCALED = 'Scaling the original LR by 0.5.'


@pytest.mark.parametrize('level, shown', [('INFO', 0), ('DEBUG', 8)])
def test_long_reports_are_in_the_log_file(tmp_path, capsys, level, shown):
    logger = MMLogger.get_instance(
        level, log_file=str(tmp_path / 'a.log'), log_level=level)
    shorten_console(logger)
    for text in [*REPORTS, 'loaded', SCALED]:
        logger.warning(text)
    printed = capsys.readouterr().out
    written = (tmp_path / 'a.log').read_text()
    assert 'loaded' in printed and 'loaded' in written
    assert SCALED in printed
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
        runner = build(tmp_path, hooks=[
            dict(type='RunAdviceHook'), dict(type='DurationHook'), *hooks],
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


class Clock:
    """Time passes in steps and evaluations, and nowhere else."""

    def __init__(self, monkeypatch, step=100, evaluation=0):
        self.now, self.step, self.evaluation = 0, step, evaluation
        monkeypatch.setattr(console, 'time', self)
        monkeypatch.setattr(console, 'STEPS', 3)
        monkeypatch.setattr(console, 'SECONDS', 10**6)

    def monotonic(self):
        return self.now

    def hook(self):
        clock = self

        class Pass(Hook):
            priority = 'VERY_HIGH'

            def after_train_iter(self, *args, **kwargs):
                clock.now += clock.step

            def after_val_epoch(self, *args, **kwargs):
                clock.now += clock.evaluation

        return Pass()


def test_the_expected_duration(advice, monkeypatch):
    """14 of 18 steps are left when three after the first are timed."""
    clock = Clock(monkeypatch)
    assert 'this run will take about 0:23:20 on this machine' in advice(
        epochs=9, hooks=[clock.hook()])
    assert not advice(epochs=1)


def test_the_duration_includes_evaluations(advice, monkeypatch):
    """Nine evaluations of four images, in training batches of two."""
    clock = Clock(monkeypatch, step=10, evaluation=100)
    monkeypatch.setattr(console, 'STEPS', 1)
    assert advice(epochs=9, hooks=[clock.hook()]).splitlines() == [
        # 16 steps, and nine evaluations like two steps
        'this run will take about 0:05:40 on this machine, with evaluations',
        # 16 steps, and eight evaluations
        'the rest will take about 0:16:00 on this machine, with evaluations']


def test_the_duration_with_cached_features(advice, monkeypatch):
    """The first of nine epochs, of two steps each, fills the cache."""
    clock = Clock(monkeypatch)
    assert 'about 0:20:00' in advice(epochs=9, hooks=[
        clock.hook(), dict(type='FrozenFeaturesHook')])


def test_few_steps_for_a_detector(advice):
    pytest.importorskip('mmcv.ops')
    from mmdet.models import DetDataPreprocessor
    assert '18 steps are few for a detector' in advice(
        DetDataPreprocessor(), epochs=9)
    assert 'steps are few' not in advice(epochs=9)


def test_hours_without_a_gpu(advice, monkeypatch):
    clock = Clock(monkeypatch, step=1000)
    assert 'smaller images take less' in advice(epochs=9, hooks=[clock.hook()])
SCALED = 'Scaling the original LR by 0.5.'


@pytest.mark.parametrize('level, shown', [('INFO', False), ('DEBUG', True)])
def test_only_warnings_are_shown_for_a_while(tmp_path, capsys, level, shown):
    logger = MMLogger.get_instance(
        f'while-{level}', log_file=str(tmp_path / 'a.log'), log_level=level)
    set_console_level(logger, 'WARNING')
    logger.info('report')
    logger.warning('careful')
    set_console_level(logger, level)
    logger.info('training')
    printed = capsys.readouterr().out
    assert 'careful' in printed and 'training' in printed
    assert ('report' in printed) is shown
    assert 'report' in (tmp_path / 'a.log').read_text()
