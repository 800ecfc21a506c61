# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a run tells its user early."""
import contextlib
import itertools
from types import SimpleNamespace

import pytest
from mmpretrain.models import SelfSupDataPreprocessor

from qbheat_mm.engine import run_advice

from .runs import Stop, StopHook, build


@pytest.fixture
def advice(tmp_path, caplog):
    """Train with the hook; return its lines."""

    def advice(preprocessor=None, **settings):
        runner = build(tmp_path, hooks=[dict(type='RunAdviceHook')],
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
            if record.module == 'run_advice')

    return advice


def test_few_images_for_pre_training(advice):
    assert advice(SelfSupDataPreprocessor()) == (
        '4 images are few for pre-training: expect useful features from '
        'about 1000 images')
    assert 'few' not in advice()


def test_files_of_an_earlier_run(advice, tmp_path):
    (tmp_path / 'encoder.safetensors').touch()
    lines = advice(epochs=1)
    assert f"'{tmp_path}' holds files of an earlier run" in lines
    assert 'encoder.safetensors' in lines and '--resume' in lines
    assert 'epoch_1.pth' in advice(epochs=1)
    assert not advice(epochs=3, resume=True)


def test_the_expected_duration(advice, monkeypatch):
    assert not advice(epochs=5)
    clock = SimpleNamespace(monotonic=itertools.count(0, 100).__next__)
    monkeypatch.setattr(run_advice, 'time', clock)
    monkeypatch.setattr(run_advice, 'STEPS', 3)
    monkeypatch.setattr(run_advice, 'SECONDS', 10**6)
    # 100 seconds for each of the four steps after three of eight
    assert advice(epochs=9, resume=True) == (
        'this run will take about 7 min on this machine, plus evaluations')


@pytest.mark.parametrize('seconds, words', [
    (5, '1 min'), (170400, '47 h 20 min'), (259200, '3.0 days')])
def test_durations_in_words(seconds, words):
    assert run_advice.duration(seconds) == words
