# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Runs that are stopped anywhere go on, by the runner itself."""
import copy
import shutil

import pytest
import torch
from mmengine.optim import OptimWrapper

from qbheat_mm.compat import load_checkpoint
from qbheat_mm.engine.resuming import (
    _require_optimizer,
    latest_checkpoint,
)
from qbheat_mm.errors import UserError

from .runs import (
    Encoder,
    StopHook,
    build,
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
    """A copy of it, as of a run that is to have five epochs."""
    shutil.copytree(trained, tmp_path / 'work')
    return tmp_path / 'work'


# Which checkpoint


def test_the_last_checkpoint_is_resumed(work):
    assert resumed_epoch(work) == 3


@pytest.mark.parametrize('pointer', [
    '', '  \n', 'nowhere/epoch_9.pth', 'epoch_7.pth', b'\xff\xfe', None])
def test_without_a_pointer_it_is_the_newest(work, pointer):
    file = work / 'last_checkpoint'
    file.unlink()
    if pointer is not None:
        file.write_bytes(pointer if isinstance(pointer, bytes)
                         else pointer.encode())
    assert resumed_epoch(work) == 3


def test_a_folder_that_was_moved_resumes_from_itself(work, tmp_path):
    moved = work.rename(tmp_path / 'moved')
    assert resumed_epoch(moved) == 3


def test_a_copied_folder_leaves_the_first_alone(trained, work):
    before = names(trained)
    train(work, epochs=4, scores=(9, ), resume=True)
    assert names(trained) == before
    assert 'best_acc_epoch_4.pth' in names(work)
    assert 'best_acc_epoch_3.pth' not in names(work)


def test_a_copied_folder_goes_on_from_what_it_holds(trained, work):
    """The pointer still names the folder that it was copied from."""
    (work / 'epoch_3.pth').unlink()
    assert str(trained) in (work / 'last_checkpoint').read_text()
    assert resumed_epoch(work) == 2
    assert latest_checkpoint(str(work)) == str(work / 'epoch_2.pth')
    for file in work.glob('*.pth'):
        file.unlink()
    assert resumed_epoch(work) == 3  # as of a run that writes elsewhere


def cut(file):
    file.write_bytes(file.read_bytes()[:-300])


def flip(file):
    content = bytearray(file.read_bytes())
    place = content.index(load_checkpoint(str(file))['state_dict'][
        'head.weight'].numpy().tobytes())
    content[place] ^= 1
    file.write_bytes(bytes(content))


def empty(file):
    file.write_bytes(b'')


def ruin(file):
    content = load_checkpoint(str(file))
    content['state_dict']['head.weight'].fill_(float('nan'))
    torch.save(content, file)


@pytest.mark.parametrize('damage', [cut, flip, empty, ruin])
def test_a_damaged_checkpoint_is_passed_over(work, damage):
    damage(work / 'epoch_3.pth')
    assert resumed_epoch(work) == 2
    damage(work / 'epoch_2.pth')
    (work / 'last_checkpoint').unlink()
    assert resumed_epoch(work) == 1


def test_no_whole_checkpoint_does_not_start_from_scratch(work):
    for file in work.glob('epoch_*.pth'):
        cut(file)
    message = refusal(work, resume=True)
    assert 'none of the 3 checkpoints' in message
    assert '--resume FILE' in message


def test_a_longer_run_before_in_the_same_folder_is_not_taken(work):
    (work / 'last_checkpoint').write_text(str(work / 'epoch_2.pth'))
    cut(work / 'epoch_2.pth')
    assert resumed_epoch(work) == 1


def test_an_empty_folder_starts_from_the_beginning(tmp_path):
    assert resumed_epoch(tmp_path) == 0


# What a checkpoint to resume has to hold


@pytest.mark.parametrize('change,words', [
    (lambda c: c.pop('optimizer'), 'lacks the state of the optimizer'),
    (lambda c: c.update(optimizer=[1]), 'lacks the state of the optimizer'),
    (lambda c: c['optimizer'].update(state={}), 'optimizer is empty'),
    (lambda c: c['optimizer'].pop('state'), 'optimizer'),
    (lambda c: c['optimizer']['param_groups'].pop(), 'other parameters'),
    (lambda c: c['optimizer']['param_groups'][0]['params'].pop(), 'other par'),
    (lambda c: c['optimizer']['state'][2].update(
        momentum_buffer=torch.ones(7)), 'other shapes'),
    (lambda c: c['optimizer']['state'][2].update(
        momentum_buffer=torch.ones(1, 1) / 0), 'NaN or infinite'),
    (lambda c: c.pop('message_hub'), 'lacks the log of the run'),
    (lambda c: c['message_hub'].pop('log_scalars'), 'cannot be resumed'),
    (lambda c: c['message_hub'].update(runtime_info=3), 'cannot be resumed'),
    (lambda c: c.pop('param_schedulers'), 'holds 0 schedules'),
    (lambda c: c['param_schedulers'].pop(), 'holds 0 schedules'),
    (lambda c: c['param_schedulers'].append({}), 'holds 2 schedules'),
    (lambda c: c.update(param_schedulers=[3]), 'is no state of a MultiStepLR'),
    (lambda c: c.update(param_schedulers=[{}]), 'no state of a MultiStepLR'),
    (lambda c: c.pop('meta'), 'how far training has got'),
    (lambda c: c['meta'].pop('epoch'), 'how far training has got'),
    (lambda c: c['meta'].update(iter='6'), 'how far training has got'),
    (lambda c: c['meta'].update(epoch=-1), 'how far training has got'),
    (lambda c: c['meta'].update(epoch=True), 'how far training has got'),
    (lambda c: c['meta'].update(epoch=9), 'max_epochs to more than its 5'),
    (lambda c: c['meta'].update(seed='x'), 'cannot be resumed'),
    (lambda c: c['optimizer']['param_groups'][0].update(lr='x'), 'lr='),
    (lambda c: c['optimizer']['param_groups'][0].update(lr=1e999), 'lr='),
    (lambda c: c['optimizer']['state'][2].update(momentum_buffer='x'),
     'of another kind than the weights'),
    (lambda c: c['param_schedulers'][0].update(last_step='x'), 'last_step='),
    (lambda c: c['message_hub']['runtime_info'].update(best_score='x'),
     'best_score='),
])
def test_an_incomplete_checkpoint_is_refused_and_says_what_is_wrong(
        work, change, words):
    file = work / 'epoch_3.pth'
    content = load_checkpoint(str(file))
    change(content)
    torch.save(content, file)
    message = refusal(work, epochs=5, resume=True, load_from=str(file))
    assert str(file) in message and words in message


def test_the_best_checkpoint_is_none_to_resume(work):
    message = refusal(work, epochs=5, resume=True,
                      load_from=str(work / 'best_acc_epoch_3.pth'))
    assert 'optimizer' in message and 'load_from=FILE' in message


# The encoder


def test_a_resumed_run_needs_no_encoder(tmp_path):
    encoder = tmp_path / 'encoder.pth'
    state = {'backbone.' + name: tensor + 5
             for name, tensor in Encoder(2).state_dict().items()}
    torch.save(state, encoder)
    wanted = dict(type='PretrainedEncoder', checkpoint=str(encoder))
    work = tmp_path / 'work'
    train(work, epochs=1, init_cfg=wanted)
    encoder.unlink()
    for init_cfg in (wanted, dict(type='PretrainedEncoder', checkpoint=None)):
        runner = train(tmp_path / 'work', epochs=2, scores=(3, ),
                       init_cfg=dict(init_cfg), resume=True)
        for name, tensor in runner.model.state_dict().items():
            if name in state:
                assert torch.equal(tensor, state[name])
    # A run that is not resumed still asks for it.
    message = refusal(tmp_path / 'new', init_cfg=dict(
        type='PretrainedEncoder', checkpoint=None))
    assert 'no encoder weights' in message
    message = refusal(tmp_path / 'new', resume=True, init_cfg=dict(
        type='PretrainedEncoder', checkpoint=None))
    assert 'no encoder weights' in message


def test_an_encoder_that_load_from_replaces_is_told(tmp_path, work,
                                                    monkeypatch):
    """Its tensors are counted in the log, and gone afterwards."""
    encoder = tmp_path / 'encoder.pth'
    torch.save({'backbone.' + name: tensor + 5
                for name, tensor in Encoder(2).state_dict().items()}, encoder)
    told = []
    for file, count in ((str(work / 'epoch_3.pth'), 1), (None, 0)):
        runner = build(tmp_path / 'new', epochs=1, load_from=file,
                       init_cfg=dict(type='PretrainedEncoder',
                                     checkpoint=str(encoder)))
        monkeypatch.setattr(runner.logger, 'warning', told.append)
        runner.train()
        assert sum(f"in place of '{encoder}' (model.backbone.init_cfg."
                   'checkpoint)' in str(line) for line in told) == count
        told.clear()


def test_the_encoder_must_be_in_what_is_resumed(work):
    file = work / 'epoch_3.pth'
    content = load_checkpoint(str(file))
    del content['state_dict']['backbone.fc.weight']
    torch.save(content, file)
    runner = build(work, epochs=5, resume=True, load_from=str(file), init_cfg=
                   dict(type='PretrainedEncoder', checkpoint=None))
    hook = next(hook for hook in runner.hooks
                if type(hook).__name__ == 'StrictLoadHook')
    hook.allow_missing = ('', )
    with pytest.raises(UserError, match='1 missing .backbone.fc.weight'):
        runner.train()


# Of another length


COSINE = dict(type='CosineAnnealingLR', by_epoch=True,
              convert_to_iter_based=True)


@pytest.mark.parametrize('schedule', [
    COSINE, dict(type='PolyLR', by_epoch=True, convert_to_iter_based=True),
    dict(type='LinearLR', start_factor=.1, by_epoch=True,
         convert_to_iter_based=True)])
def test_a_schedule_of_another_length_is_refused(tmp_path, schedule):
    """mmengine would keep its old places: the rate would be wrong."""
    train(tmp_path, stop=StopHook('before_train_epoch', 3), epochs=4,
          schedule=schedule)
    common = dict(schedule=schedule, resume=True, scores=range(9))
    for changes in (dict(epochs=8), dict(epochs=4, batch_size=1)):
        said = refusal(tmp_path, **common, **changes)
        assert '_iters=' in said or 'T_max=' in said
        assert 'processes x train_dataloader.batch_size' in said
    runner = train(tmp_path, epochs=4, **common)
    assert runner.epoch == 4


def test_milestones_behind_the_old_end_count(work):
    """A schedule of steps has no length of its own."""
    schedule = dict(type='MultiStepLR', milestones=[2])
    runner = train(work, epochs=5, scores=range(9), resume=True,
                   schedule=schedule)
    assert runner.param_schedulers[0].end == 5


def test_settings_of_the_optimizer_that_are_not_taken_are_named(
        work, monkeypatch):
    said = []
    monkeypatch.setattr('qbheat_mm.engine.resuming.print_log',
                        lambda text, *args: said.append(text))
    resumed_epoch(work)
    assert not said
    resumed_epoch(work, optimizer=dict(lr=0.02, weight_decay=0.1))
    line, = said
    assert 'lr=0.01 and not 0.02' in line
    assert 'weight_decay=0 and not 0.1' in line


# Runs that count no epochs


def test_a_run_of_iterations_goes_on_from_its_last(tmp_path):
    whole = train(tmp_path / 'whole', iterations=6, scores=range(6))
    work = tmp_path / 'work'
    how = dict(iterations=6, checkpoint=dict(max_keep_ckpts=2))
    train(work, stop=StopHook('before_train_iter', 5), scores=range(6), **how)
    assert names(work) == ['best_acc_iter_4.pth', 'iter_3.pth', 'iter_4.pth']
    cut(work / 'iter_4.pth')
    runner = train(work, scores=range(3, 9), resume=True, **how)
    assert runner.iter == 6
    assert names(work) == ['best_acc_iter_6.pth', 'iter_5.pth', 'iter_6.pth']
    for name, tensor in runner.model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name]), name
    assert 'max_iters to more than its 5' in refusal(
        work, iterations=5, resume=True)


def test_states_that_are_smaller_than_the_weights_by_design_are_resumed():
    """As those of Adafactor, which are a row and a column."""
    weight = torch.nn.Parameter(torch.ones(3, 4))
    weight.grad = torch.ones(3, 4)
    for kind, changed in ((torch.optim.Adafactor, None),
                          (torch.optim.AdamW, 'exp_avg')):
        wrapper = OptimWrapper(kind([weight], lr=0.1))
        wrapper.optimizer.step()
        state = copy.deepcopy(wrapper.state_dict())
        _require_optimizer(wrapper, 'a.pth', state)
        if changed:
            state['state'][0][changed] = torch.ones(3, 1)
            with pytest.raises(UserError, match='other shapes'):
                _require_optimizer(wrapper, 'a.pth', state)
