# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A kill, a full disk or a diverging run costs no earlier checkpoint."""
import os
import resource

import pytest
import torch
from mmengine.hooks import Hook

from ..helpers.runs import (
    Stop,
    StopHook,
    build,
    names,
    refusal,
    resumed_epoch,
    train,
)


class RuinHook(Hook):
    """Set a weight before or after an iteration."""

    def __init__(self, place, iteration, value):

        def ruin(runner, *args, **kwargs):
            if runner.iter == iteration:
                runner.model.head.weight.data.fill_(value)

        setattr(self, place, ruin)


class Saved(Hook):
    """Note when checkpoints are written."""

    def __init__(self):
        self.steps = []

    def after_save_checkpoint(self, runner):
        self.steps.append(runner.message_hub.get_info('last_ckpt'))


@pytest.mark.parametrize('unit, length, share, interval', [
    ('epoch', dict(epochs=12), 0.1, 2),
    ('iter', dict(iterations=25), 0.28, 7)])
def test_a_checkpoint_after_a_share_of_the_run(tmp_path, unit, length, share,
                                               interval):
    saved = Saved()
    train(tmp_path, hooks=[saved], scores=range(99), **length,
          checkpoint=dict(interval=share, by_epoch=True, save_best=None))
    end, = length.values()
    assert saved.steps == [
        str(tmp_path / f'{unit}_{step}.pth')
        for step in sorted({*range(interval, end + 1, interval), end})]
    assert names(tmp_path) == sorted(
        os.path.basename(step) for step in saved.steps[-2:])


def test_a_kill_before_a_write_costs_no_checkpoint(tmp_path):
    train(tmp_path, stop=StopHook('before_save_checkpoint', 4))
    assert any(name.startswith('epoch_') for name in names(tmp_path))
    assert train(tmp_path, resume=True).epoch == 3


def test_a_kill_within_a_write_costs_no_checkpoint(tmp_path, monkeypatch):
    train(tmp_path, epochs=1)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}

    def kill(number):
        raise Stop

    monkeypatch.setattr(os, 'fsync', kill)
    with pytest.raises(Stop):
        build(tmp_path, epochs=2, resume=True).train()
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    assert not [name for name in os.listdir(tmp_path)
                if name.startswith('.')]


def test_a_full_disk_costs_no_checkpoint(tmp_path):
    train(tmp_path, epochs=1)
    before = names(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / 'epoch_1.pth').stat().st_size // 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        message = refusal(tmp_path, epochs=2, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in message and '--resume' in message
    assert names(tmp_path) == before
    assert resumed_epoch(tmp_path) == 1


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    # After the last loss of the second epoch.
    ruin = RuinHook('after_train_iter', 3, float('nan'))
    message = refusal(tmp_path, hooks=[ruin],
                      checkpoint=dict(max_keep_ckpts=1))
    assert 'head.weight' in message and 'epoch_1.pth' in message
    assert names(tmp_path) == ['best_acc_epoch_1.pth', 'epoch_1.pth']


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    message = refusal(tmp_path, hooks=[
        RuinHook('before_train_iter', 2, torch.inf)])
    assert 'iteration 3 of epoch 2 (loss inf)' in message
    # Resuming would keep the learning rate that should be lowered.
    assert f'load_from={tmp_path / "epoch_1.pth"}' in message
    message = refusal(tmp_path / 'new', hooks=[
        RuinHook('before_train_iter', 0, torch.inf)])
    assert 'there is no checkpoint yet' in message
