# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A kill, a full disk or a bad path costs no earlier checkpoint."""
import os
import resource

import pytest

from qbheat_mm.compat import load_checkpoint

from .runs import Stop, StopHook, build, names, refusal, resumed_epoch, train


def test_only_the_newest_is_kept_and_the_best(tmp_path):
    train(tmp_path, scores=(1, 3, 2))
    assert names(tmp_path) == ['best_acc_epoch_2.pth', 'epoch_3.pth']


def test_a_kill_in_the_write_costs_no_earlier_checkpoint(tmp_path):
    # Each epoch writes its checkpoint, the best, and the first once more.
    for call in (4, 5, 6):
        work = tmp_path / str(call)
        train(work, stop=StopHook('before_save_checkpoint', call))
        assert {'best_acc_epoch_1.pth'} <= set(names(work))
        assert any(name.startswith('epoch_') for name in names(work))
        end = train(work, scores=(2, 3), resume=True)
        assert end.epoch == 3
        assert names(work) == ['best_acc_epoch_3.pth', 'epoch_3.pth']


def test_a_kill_in_the_middle_of_a_file_leaves_the_former(tmp_path,
                                                          monkeypatch):
    train(tmp_path, epochs=1)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}

    def kill(number):
        raise Stop

    monkeypatch.setattr(os, 'fsync', kill)
    with pytest.raises(Stop):
        build(tmp_path, epochs=2, resume=True).train()
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content


def test_a_full_disk_ends_in_one_line_and_costs_nothing(tmp_path):
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


def test_a_path_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / 'epoch_1.pth').mkdir()
    message = refusal(tmp_path, epochs=1)
    assert 'no checkpoint could be written' in message


@pytest.mark.parametrize('place', ['before_val_epoch', 'after_val_epoch'])
def test_a_kill_in_an_evaluation_is_made_up_for(tmp_path, place):
    train(tmp_path, epochs=3, stop=StopHook(place, 3))
    assert 'best_acc_epoch_2.pth' in names(tmp_path)
    runner = train(tmp_path, scores=(7, ), resume=True)
    assert runner.val_evaluator.metrics[0].calls == 1
    assert names(tmp_path) == ['best_acc_epoch_3.pth', 'epoch_3.pth']
    hub = load_checkpoint(str(tmp_path / 'epoch_3.pth'))['message_hub']
    assert hub['runtime_info']['best_score'] == 7


def test_what_was_evaluated_is_not_evaluated_again(tmp_path):
    train(tmp_path, epochs=2)
    runner = train(tmp_path, epochs=3, scores=(3, ), resume=True)
    assert runner.val_evaluator.metrics[0].calls == 1


def test_an_epoch_without_evaluation_gets_none(tmp_path):
    train(tmp_path, val_interval=5, stop=StopHook('before_train_epoch', 3))
    runner = train(tmp_path, val_interval=5, scores=(1, ), resume=True)
    assert runner.val_evaluator.metrics[0].calls == 1
    assert names(tmp_path) == ['best_acc_epoch_3.pth', 'epoch_3.pth']


def test_evaluating_alone_saves_nothing(tmp_path):
    assert build(tmp_path, scores=(1, )).val() == dict(acc=1)
    assert not names(tmp_path)


@pytest.mark.parametrize('by_epoch', [True, False])
def test_checkpoints_by_epochs_of_a_loop_without_are_told(
        tmp_path, monkeypatch, by_epoch):
    """A kill would cost the whole run."""
    told = []
    runner = build(tmp_path, iterations=2, checkpoint=dict(by_epoch=by_epoch))
    monkeypatch.setattr(runner.logger, 'warning', told.append)
    runner.train()
    assert sum('default_hooks.checkpoint.by_epoch=False' in str(line)
               for line in told) == by_epoch
