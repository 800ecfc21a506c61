# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Runs resume from the newest readable checkpoint of their own."""
import shutil

import pytest
import torch

from qbheat_mm.engine.checkpoint import read

from .runs import (
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


@pytest.mark.parametrize('pointer', [
    '', 'nowhere/epoch_9.pth', b'\xff\xfe', None])
def test_without_a_pointer_it_is_the_newest(work, pointer):
    assert resumed_epoch(work) == 3
    file = work / 'last_checkpoint'
    file.unlink()
    if pointer is not None:
        file.write_bytes(pointer if isinstance(pointer, bytes)
                         else pointer.encode())
    assert resumed_epoch(work) == 3


def test_a_copied_folder_leaves_the_first_alone(trained, work):
    before = names(trained)
    train(work, epochs=4, scores=(9, ), resume=True)
    assert names(trained) == before
    assert 'best_acc_epoch_4.pth' in names(work)
    assert 'best_acc_epoch_3.pth' not in names(work)


def cut(file):
    file.write_bytes(file.read_bytes()[:-300])


def empty(file):
    file.write_bytes(b'')


def ruin(file):
    content = read(file)
    content['state_dict']['head.weight'].fill_(float('nan'))
    torch.save(content, file)


@pytest.mark.parametrize('damage', [cut, empty, ruin])
def test_a_damaged_checkpoint_is_passed_over(work, damage):
    damage(work / 'epoch_3.pth')
    assert resumed_epoch(work) == 2
    damage(work / 'epoch_2.pth')
    (work / 'last_checkpoint').unlink()
    assert resumed_epoch(work) == 1
    damage(work / 'epoch_1.pth')
    assert 'can be resumed' in refusal(work, resume=True)


def test_an_empty_folder_starts_from_the_beginning(tmp_path):
    assert resumed_epoch(tmp_path) == 0


@pytest.mark.parametrize('change, words', [
    (lambda c: c.pop('optimizer'), 'lacks optimizer'),
    (lambda c: c['optimizer']['param_groups'].pop(), 'cannot be resumed'),
    (lambda c: c['optimizer']['state'][2].update(
        momentum_buffer=torch.ones(1, 1) / 0), 'NaN or infinite'),
    (lambda c: c.pop('message_hub'), 'lacks message_hub'),
    (lambda c: c.pop('param_schedulers'), 'has 0 param_schedulers'),
    (lambda c: c.pop('meta'), 'lacks meta.epoch'),
    (lambda c: c['meta'].update(iter='6'), 'lacks meta.iter'),
    (lambda c: c['meta'].update(epoch=9), 'train_cfg.max_epochs=5')])
def test_an_incomplete_checkpoint_is_refused(work, change, words):
    file = work / 'epoch_3.pth'
    content = read(file)
    change(content)
    torch.save(content, file)
    message = refusal(work, epochs=5, resume=True, load_from=str(file))
    assert str(file) in message and words in message


def test_weights_alone_are_not_resumed(work):
    message = refusal(work, epochs=5, resume=True,
                      load_from=str(work / 'best_acc_epoch_3.pth'))
    assert 'optimizer' in message and 'load_from=FILE' in message


def test_a_resumed_run_needs_no_encoder(tmp_path):
    encoder = tmp_path / 'encoder.pth'
    state = {f'backbone.{name}': tensor + 5
             for name, tensor in Encoder(2).state_dict().items()}
    torch.save(state, encoder)
    wanted = dict(type='PretrainedEncoder', checkpoint=str(encoder))
    train(tmp_path / 'work', epochs=1, init_cfg=wanted)
    encoder.unlink()
    for init_cfg in (wanted, dict(type='PretrainedEncoder')):
        runner = train(tmp_path / 'work', epochs=2, scores=(3, ),
                       init_cfg=dict(init_cfg), resume=True)
        for name, tensor in runner.model.state_dict().items():
            if name in state:
                assert torch.equal(tensor, state[name])
    # A run that has nothing to resume asks for it.
    for resume in (False, True):
        assert 'no encoder weights' in refusal(
            tmp_path / 'new', resume=resume,
            init_cfg=dict(type='PretrainedEncoder'))


@pytest.mark.parametrize('schedule', [
    dict(type='CosineAnnealingLR', by_epoch=True, convert_to_iter_based=True),
    dict(type='PolyLR', by_epoch=True, convert_to_iter_based=True)])
def test_a_schedule_of_another_length_is_refused(tmp_path, schedule):
    """mmengine would silently keep the old one."""
    train(tmp_path, stop=StopHook('before_train_epoch', 3), epochs=4,
          schedule=schedule)
    common = dict(schedule=schedule, resume=True, scores=range(9))
    for changes in (dict(epochs=8), dict(epochs=4, batch_size=1)):
        assert 'schedule of another length' in refusal(
            tmp_path, **common, **changes)
    assert train(tmp_path, epochs=4, **common).epoch == 4


def test_milestones_have_no_length(work):
    runner = train(work, epochs=5, scores=range(9), resume=True,
                   schedule=dict(type='MultiStepLR', milestones=[2]))
    assert runner.param_schedulers[0].end == 5


def test_a_run_of_iterations(tmp_path):
    whole = train(tmp_path / 'whole', iterations=6, scores=range(6))
    work = tmp_path / 'work'
    train(work, stop=StopHook('before_train_iter', 5), scores=range(6),
          iterations=6)
    cut(work / 'iter_4.pth')
    runner = train(work, scores=range(3, 9), resume=True, iterations=6)
    assert runner.iter == 6
    for name, tensor in runner.model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name]), name
    assert 'max_iters=5' in refusal(work, iterations=5, resume=True)
