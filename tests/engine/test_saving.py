# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A kill, a full disk or a bad path costs no earlier checkpoint."""
import os
import resource

import pytest
import torch

from .runs import Stop, StopHook, build, names, refusal, resumed_epoch, train


def test_only_the_newest_are_kept_and_the_best(tmp_path):
    train(tmp_path, scores=(1, 3, 2))
    assert names(tmp_path) == [
        'best_acc_epoch_2.pth', 'epoch_2.pth', 'epoch_3.pth']


@pytest.mark.parametrize('call', [4, 5, 6])
def test_a_kill_in_the_write_costs_no_earlier_checkpoint(tmp_path, call):
    # Each epoch writes its checkpoint, the best, and the first once more.
    train(tmp_path, stop=StopHook('before_save_checkpoint', call))
    assert any(name.startswith('epoch_') for name in names(tmp_path))
    end = train(tmp_path, scores=(2, 3), resume=True)
    assert end.epoch == 3


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
    assert len(os.listdir(tmp_path)) == len(set(os.listdir(tmp_path)))
    assert not [name for name in os.listdir(tmp_path)
                if name.startswith('.')]


def test_a_full_disk_names_the_folder_and_costs_nothing(tmp_path):
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


def test_ruined_weights_are_not_written(tmp_path):
    runner = build(tmp_path, epochs=2)
    runner.register_hook(StopHook('after_train_iter', 99))
    step = runner.model.train_step

    def ruin(*args, **kwargs):
        outputs = step(*args, **kwargs)
        if runner.iter == 3:
            runner.model.head.weight.data.fill_(float('nan'))
        return outputs

    runner.model.train_step = ruin
    with pytest.raises(Exception, match=r'head.weight.*epoch_1.pth'):
        runner.train()
    assert names(tmp_path) == ['best_acc_epoch_1.pth', 'epoch_1.pth']
    assert torch.isnan(runner.model.head.weight).all()


def test_evaluating_alone_saves_nothing(tmp_path):
    assert build(tmp_path, scores=(1, )).val() == dict(acc=1)
    assert not names(tmp_path)
