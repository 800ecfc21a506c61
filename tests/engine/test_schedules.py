# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Schedules follow the length of the run."""
import pytest
from mmengine.optim import LinearLR

from qbheat_mm.engine.schedules import fit_schedulers

from ..helpers.runs import learning_rates

WARM_UP = dict(type=LinearLR, start_factor=1e-4, by_epoch=True, begin=0,
               end=10, convert_to_iter_based=True)
COSINE = dict(type='CosineAnnealingLR', by_epoch=True, begin=10,
              convert_to_iter_based=True)
STEPS = dict(type='MultiStepLR', by_epoch=True, begin=0, end=24,
             milestones=[16, 22], gamma=0.1)
WARM_UP_IN_STEPS = dict(type='LinearLR', start_factor=0.001, by_epoch=False,
                        begin=0, end=500)
PRETRAINING = [WARM_UP, COSINE]
DETECTION = [WARM_UP_IN_STEPS, STEPS]


def fit(schedulers, epochs, epoch_length):
    fitted = fit_schedulers(schedulers, epochs * epoch_length, epoch_length)
    return fitted, learning_rates(fitted, epochs, epoch_length)


@pytest.mark.parametrize('schedulers,epochs,epoch_length', [
    (PRETRAINING, 100, 1251), (PRETRAINING, 21, 1), (DETECTION, 24, 50),
    ([], 1, 1), ([dict(COSINE, begin=0)], 1, 1),
    ([WARM_UP_IN_STEPS], 10, 100), ([WARM_UP], 20, 7),
    ([dict(WARM_UP_IN_STEPS, end=2), STEPS], 24, 50)])
def test_what_fits_is_left_alone(schedulers, epochs, epoch_length):
    fitted = fit_schedulers(schedulers, epochs * epoch_length, epoch_length)
    assert all(a is b for a, b in zip(fitted, schedulers, strict=True))


@pytest.mark.parametrize('epochs', [1, 2, 5, 10, 19])
@pytest.mark.parametrize('epoch_length', [1, 7, 100])
def test_warm_up_and_cosine_in_few_epochs(epochs, epoch_length):
    _, rates = fit(PRETRAINING, epochs, epoch_length)
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
    fitted, rates = fit([STEPS], epochs, epoch_length)
    steps = len(rates)
    expected = sorted({max(1, int(steps * m / 24)) for m in (16, 22)})
    assert fitted[0]['milestones'] == expected
    drops = [i for i in range(1, steps) if rates[i] < rates[i - 1] * 0.9]
    assert drops == [place for place in expected if place < steps]


@pytest.mark.parametrize('steps', [24, 400, 900])
def test_a_warm_up_in_steps_gets_a_tenth(steps):
    fitted, rates = fit(DETECTION, 24, steps // 24)
    assert max(rates) == pytest.approx(1)
    assert rates.index(max(rates)) <= len(rates) // 10
    assert fitted[-1] is STEPS  # which fits


def test_a_warm_up_in_steps_keeps_them_in_a_shorter_run():
    (warm_up, steps), _ = fit(DETECTION, 20, 50)
    assert warm_up is WARM_UP_IN_STEPS and steps['end'] == 1000


@pytest.mark.parametrize('factor, end', [({}, 3), (dict(factor=1), 20)])
def test_a_constant_rate_is_a_warm_up_if_it_is_lower(factor, end):
    start = dict(type='ConstantLR', begin=0, end=20, **factor)
    fitted, _ = fit([start, dict(COSINE, begin=20)], 30, 1)
    assert fitted[0]['end'] == fitted[1]['begin'] == end


def test_what_ends_with_the_recipe_ends_with_the_run():
    """Whatever the rounding of floats: 49 * (47 / 49) is less than 47."""
    for epochs in range(2, 49):
        fitted, _ = fit([dict(COSINE, begin=0, end=49, T_max=49)], epochs, 1)
        assert fitted[0]['end'] == fitted[0]['T_max'] == epochs


def test_a_recipe_for_more_epochs_is_scaled():
    schedulers = [dict(WARM_UP, end=5),
                  dict(COSINE, begin=5, end=100, T_max=95)]
    fitted, rates = fit(schedulers, 20, 10)
    assert fitted[0]['end'] == fitted[1]['begin'] == 10  # of 200 steps
    assert (fitted[1]['T_max'], fitted[1]['end']) == (190, 200)
    assert max(rates) == pytest.approx(1) and rates[-1] < 1e-3


def test_a_warm_up_of_one_step_is_dropped():
    """mmengine would keep its first learning rate for the whole run."""
    warm_up = dict(WARM_UP, end=1)
    assert max(learning_rates([warm_up], 30, 1)) < 1e-3
    _, rates = fit([warm_up, dict(COSINE, begin=1)], 30, 1)
    assert rates[0] == pytest.approx(1)


@pytest.mark.parametrize('epochs', [2, 12, 22])
def test_milestones_without_an_end(epochs):
    """A tenth of the run follows, as in mmdet's [8, 11] of 12 epochs."""
    steps = {name: value for name, value in STEPS.items() if name != 'end'}
    fitted, rates = fit([steps], epochs, 10)
    first, last = fitted[0]['milestones']
    assert last == pytest.approx(0.9 * len(rates), abs=1)
    assert first == pytest.approx(16 / 22 * 0.9 * len(rates), abs=1)
    assert rates[-1] == pytest.approx(0.01)


def test_a_cosine_gets_the_steps_that_the_warm_up_loses():
    (warm_up, cosine), rates = fit(
        [dict(WARM_UP, end=8), dict(COSINE, begin=8, T_max=2, end=10)], 10, 10)
    assert cosine['begin'] == warm_up['end'] == 10  # a tenth of 100 steps
    assert cosine['T_max'] == cosine['end'] - cosine['begin'] == 90
    assert rates[-1] < 0.01
