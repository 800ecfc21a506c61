# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Runs resume from the newest readable checkpoint."""
import os
import shutil

import pytest
import torch

from qbheat_mm.engine.run_state import checkpoints_in, latest
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.runs import (
    Encoder,
    StopHook,
    names,
    refusal,
    resumed_epoch,
    train,
)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """Work folder of three epochs, all checkpoints kept."""
    folder = tmp_path_factory.mktemp('trained')
    train(folder, checkpoint=dict(max_keep_ckpts=-1))
    return folder


@pytest.fixture
def work(trained, tmp_path):
    """A copy of it."""
    shutil.copytree(trained, tmp_path / 'work')
    return tmp_path / 'work'


def test_the_order_of_checkpoints(tmp_path):
    assert latest(tmp_path) is None
    for name in ('epoch_1', 'epoch_2', 'epoch_10', 'best_epoch_3'):
        (tmp_path / f'{name}.pth').touch()

    def order():
        return [os.path.basename(path) for path in checkpoints_in(tmp_path)]

    newest_first = ['epoch_10.pth', 'epoch_2.pth', 'epoch_1.pth']
    assert order() == newest_first
    for damaged in (b'', b'\xff\xfe'):
        (tmp_path / 'last_checkpoint').write_bytes(damaged)
        assert order() == newest_first
    # The folder was moved, and epoch 10 belongs to an older run.
    (tmp_path / 'last_checkpoint').write_text('elsewhere/epoch_2.pth')
    assert order() == ['epoch_2.pth', 'epoch_1.pth', 'epoch_10.pth']
    assert latest(tmp_path) == str(tmp_path / 'epoch_2.pth')


def test_a_copied_folder_leaves_the_original_alone(trained, work):
    before = names(trained)
    train(work, epochs=4, scores=(9, ), resume=True)
    assert names(trained) == before
    assert 'best_acc_epoch_4.pth' in names(work)
    assert 'best_acc_epoch_3.pth' not in names(work)


@pytest.mark.parametrize('damage', [lambda content: content[:-300],
                                    lambda content: b''])
def test_unreadable_checkpoints_are_skipped(work, damage):
    assert resumed_epoch(work) == 3
    for epoch in (3, 2):
        file = work / f'epoch_{epoch}.pth'
        file.write_bytes(damage(file.read_bytes()))
        assert resumed_epoch(work) == epoch - 1
    (work / 'epoch_1.pth').write_bytes(b'')
    assert 'can be resumed' in refusal(work, resume=True)


def test_an_empty_folder_starts_from_the_beginning(tmp_path):
    assert resumed_epoch(tmp_path) == 0


@pytest.mark.parametrize('change, words', [
    (lambda c: c.pop('optimizer'), 'lacks optimizer'),
    (lambda c: c.pop('message_hub'), 'lacks message_hub'),
    (lambda c: c.pop('param_schedulers'), 'has 0 param_schedulers'),
    (lambda c: c['state_dict']['head.weight'].fill_(torch.nan), 'NaN'),
    (lambda c: c.pop('meta'), 'lacks meta.epoch'),
    (lambda c: c['meta'].update(iter='6'), 'lacks meta.iter'),
    (lambda c: c['meta'].update(epoch=9), 'train_cfg.max_epochs=5')])
def test_incomplete_checkpoints_are_refused(work, change, words):
    file = work / 'epoch_3.pth'
    content = safe_load(file)
    change(content)
    torch.save(content, file)
    message = refusal(work, epochs=5, resume=True, load_from=str(file))
    assert str(file) in message and words in message


def test_a_resumed_run_needs_no_encoder(tmp_path):
    encoder = tmp_path / 'encoder.pth'
    state = {f'backbone.{name}': tensor + 5
             for name, tensor in Encoder(2).state_dict().items()}
    torch.save(state, encoder)
    wanted = dict(type='PretrainedEncoder', checkpoint=str(encoder))
    train(tmp_path / 'work', epochs=1, init_cfg=wanted)
    encoder.unlink()
    for init_cfg in (wanted, dict(type='PretrainedEncoder')):
        runner = train(tmp_path / 'work', epochs=2, init_cfg=dict(init_cfg),
                       resume=True)
        for name, tensor in state.items():
            assert torch.equal(runner.model.state_dict()[name], tensor)
    # Unless there is nothing to resume.
    assert 'no encoder weights' in refusal(
        tmp_path / 'new', resume=True,
        init_cfg=dict(type='PretrainedEncoder'))


def test_a_schedule_of_another_length_is_refused(tmp_path):
    """mmengine would silently keep the old one."""
    schedule = dict(type='CosineAnnealingLR', by_epoch=True,
                    convert_to_iter_based=True)
    train(tmp_path, stop=StopHook('before_train_epoch', 3), epochs=4,
          schedule=schedule)
    common = dict(schedule=schedule, resume=True)
    for changes in (dict(epochs=8), dict(epochs=4, batch_size=1)):
        assert 'schedule of another length' in refusal(
            tmp_path, **common, **changes)
    assert train(tmp_path, epochs=4, **common).epoch == 4


def test_milestones_have_no_length(work):
    runner = train(work, epochs=5, resume=True)
    assert runner.param_schedulers[0].end == 5


def test_a_run_of_iterations(tmp_path):
    work = tmp_path / 'work'
    train(work, stop=StopHook('before_train_iter', 5), iterations=6)
    (work / 'iter_4.pth').write_bytes(b'')
    assert train(work, resume=True, iterations=6).iter == 6
    assert 'max_iters=5' in refusal(work, iterations=5, resume=True)
