# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Schedules follow the length of the run."""
import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS

from qbheat_mm.engine.schedules import fit_schedulers

WARM_UP = dict(type='LinearLR', start_factor=1e-4, by_epoch=True, begin=0,
               end=10, convert_to_iter_based=True)
COSINE = dict(type='CosineAnnealingLR', by_epoch=True, begin=10,
              convert_to_iter_based=True)
STEPS = dict(type='MultiStepLR', by_epoch=True, begin=0, end=24,
             milestones=[16, 22], gamma=0.1)
WARM_UP_IN_STEPS = dict(type='LinearLR', start_factor=0.001, by_epoch=False,
                        begin=0, end=500)
PRETRAINING = [WARM_UP, COSINE]
DETECTION = [WARM_UP_IN_STEPS, STEPS]


def learning_rates(schedulers, epochs, epoch_length):
    """The learning rate of each step, of 1, as mmengine's runner has it."""
    optimizer = build_optim_wrapper(
        torch.nn.Linear(1, 1), dict(optimizer=dict(type='SGD', lr=1.)))
    built = []
    for settings in schedulers:
        settings = dict(settings)
        by_epoch = settings.get('by_epoch', True)
        settings.setdefault('end', epochs if by_epoch
                            else epochs * epoch_length)
        built.append(PARAM_SCHEDULERS.build(settings, default_args=dict(
            optimizer=optimizer, epoch_length=epoch_length)))
    rates = []
    for step in range(epochs * epoch_length):
        rates.append(optimizer.param_groups[0]['lr'])
        for scheduler in built:
            if not scheduler.by_epoch or (step + 1) % epoch_length == 0:
                scheduler.step()
    return rates


def fit(schedulers, epochs, epoch_length):
    fitted = fit_schedulers(schedulers, epochs * epoch_length, epoch_length)
    return (fitted, fitted != [*schedulers],
            learning_rates(fitted, epochs, epoch_length))


@pytest.mark.parametrize('schedulers,epochs,epoch_length', [
    (PRETRAINING, 100, 1251), (PRETRAINING, 21, 1), (DETECTION, 24, 50),
    ([], 1, 1), ([dict(COSINE, begin=0)], 1, 1),
    ([WARM_UP_IN_STEPS], 5, 100), ([WARM_UP], 10, 7),
    ([dict(WARM_UP_IN_STEPS, end=2), STEPS], 24, 50)])
def test_what_fits_is_left_alone(schedulers, epochs, epoch_length):
    fitted = fit_schedulers(schedulers, epochs * epoch_length, epoch_length)
    assert all(a is b for a, b in zip(fitted, schedulers, strict=True))


@pytest.mark.parametrize('epochs', [1, 2, 3, 5, 10, 11, 19])
@pytest.mark.parametrize('epoch_length', [1, 2, 7, 100])
def test_warm_up_and_cosine_in_few_epochs(epochs, epoch_length):
    _, changes, rates = fit(PRETRAINING, epochs, epoch_length)
    assert changes
    steps = len(rates)
    assert max(rates) == pytest.approx(1)
    peak = rates.index(max(rates))
    assert peak <= steps / 10
    assert rates[:peak + 1] == sorted(rates[:peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    # The cosine ends with the run.
    assert rates[-1] <= 10 / steps ** 2 + 1e-6 or steps < 4


@pytest.mark.parametrize('epochs', [1, 2, 12, 22])
@pytest.mark.parametrize('epoch_length', [1, 3, 50])
def test_milestones_keep_their_shares(epochs, epoch_length):
    fitted, changes, rates = fit([STEPS], epochs, epoch_length)
    steps = len(rates)
    assert changes
    expected = sorted({max(1, int(steps * m / 24)) for m in (16, 22)})
    assert fitted[0]['milestones'] == expected
    drops = [i for i in range(1, steps) if rates[i] < rates[i - 1] * 0.9]
    assert drops == [place for place in expected if place < steps]


@pytest.mark.parametrize('steps', [1, 5, 24, 400, 900])
def test_a_warm_up_in_steps_gets_a_tenth(steps):
    fitted, changes, rates = fit([WARM_UP_IN_STEPS], 1, steps)
    assert rates[-1] == pytest.approx(1) or steps >= 500
    fitted, changes, rates = fit(DETECTION, 24, max(1, steps // 24))
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(1)
    assert peak <= max(len(rates) // 10, 0)
    assert fitted[-1] is STEPS  # which fits


def test_what_was_written_for_more_epochs_is_scaled_as_a_whole():
    schedulers = [dict(WARM_UP, end=5),
                  dict(COSINE, begin=5, end=100, T_max=95)]
    fitted, _, rates = fit(schedulers, 20, 10)
    assert fitted[0]['end'] == fitted[1]['begin'] == 10  # of 200 steps
    assert (fitted[1]['T_max'], fitted[1]['end']) == (190, 200)
    assert max(rates) == pytest.approx(1) and rates[-1] < 1e-3


def test_a_warm_up_of_one_step_is_left_out():
    # mmengine would keep its first learning rate for the rest of the run.
    assert max(learning_rates([dict(WARM_UP, end=1)], 30, 1)) < 1e-3
    for warm_up in (dict(WARM_UP, end=1), dict(
            WARM_UP, end=1, convert_to_iter_based=False)):
        _, changes, rates = fit([warm_up, dict(COSINE, begin=1)], 30, 1)
        assert changes and rates[0] == pytest.approx(1)
    # In epochs of several steps it takes one of them.
    _, _, rates = fit([dict(WARM_UP, end=1, convert_to_iter_based=False)],
                      30, 5)
    assert rates[0] < 1e-3 and rates[5:] == pytest.approx([1] * 145)


def test_classes_for_names():
    from mmengine.optim import CosineAnnealingLR, LinearLR
    fitted, _, _ = fit([dict(WARM_UP, type=LinearLR),
                              dict(COSINE, type=CosineAnnealingLR)], 2, 20)
    assert [part.get('end') for part in fitted] == [4, None]
    assert fitted[1]['begin'] == 4


@pytest.mark.parametrize('epochs', [2, 12, 22])
@pytest.mark.parametrize('epoch_length', [10, 50])
def test_milestones_without_an_end_leave_a_tenth_behind_them(epochs,
                                                             epoch_length):
    """As mmdet's [8, 11] of 12 epochs and [16, 22] of 24 do."""
    steps = {name: value for name, value in STEPS.items() if name != 'end'}
    fitted, _, rates = fit([steps], epochs, epoch_length)
    first, last = fitted[0]['milestones']
    assert last == pytest.approx(0.9 * len(rates), abs=1)
    assert first == pytest.approx(16 / 22 * 0.9 * len(rates), abs=1)
    assert rates[-1] == pytest.approx(0.01)


def test_a_cosine_that_names_its_length_ends_where_it_ended():
    """What a shorter warm-up leaves is the cosine's."""
    fitted, changes, rates = fit(
        [dict(WARM_UP, end=8), dict(COSINE, begin=8, T_max=2, end=10)], 10, 10)
    assert changes
    warm_up, cosine = fitted
    assert cosine['begin'] == warm_up['end'] == 10  # a tenth of 100 steps
    assert cosine['T_max'] == cosine['end'] - cosine['begin'] == 90
    assert rates[-1] < 0.01
