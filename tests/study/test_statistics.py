# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Statistics of paired seeds against values worked out by hand."""
import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from projects.drawn_world.study.statistics import (
    compare,
    correct,
    interval,
    sign_flip,
)


@pytest.mark.parametrize('differences, p', [
    # all of one sign: the observed and its mirror image, of 2**n
    ((1, 2, 3, 4, 5, 6), 2 / 64),
    ((-1, -2, -3), 2 / 8),
    # sums of all flips: 6 4 2 0 0 -2 -4 -6, the observed is 4
    ((-1, 2, 3), 4 / 8),
    ((0, 0, 0), 1),
    # a sum of 0: every flip is as extreme, though floats say 3e-17
    ((.1, .2, .3, -.1, -.2, -.3), 1),
    # in twelfths -45 20 -14 5 63 39, a sum of 68: 32 of 64 flips reach it,
    # one of them in floats of four decimals not quite
    ((-3.75, 1.6667, -1.1666, .4167, 5.25, 3.25), 32 / 64),
])
def test_sign_flips_are_counted(differences, p):
    assert sign_flip(np.array(differences, float)) == pytest.approx(p)


def test_many_seeds_give_the_same_p_value_again():
    values = np.random.default_rng(1).normal(.5, 1, 17)
    found = {sign_flip(values) for _ in range(3)}
    assert len(found) == 1
    # about normal, as a sum of so many is
    z = values.sum() / np.sqrt((values**2).sum())
    assert found.pop() == pytest.approx(2 * norm.sf(z), abs=.01)


def bca(values, level=0.95):
    """Efron's BCa interval over all resamples instead of random ones."""
    n = len(values)
    means = np.sort([np.mean(s) for s in itertools.product(values, repeat=n)])
    mean = np.mean(values)
    share = (np.sum(means < mean) + np.sum(means <= mean)) / 2 / len(means)
    bias = norm.ppf(share)
    left_out = np.array([np.mean(np.delete(values, i)) for i in range(n)])
    pull = left_out.mean() - left_out
    skew = (pull**3).sum() / (6 * (pull**2).sum()**1.5)
    ends = []
    for z in norm.ppf([(1 - level) / 2, (1 + level) / 2]):
        z = bias + (bias + z) / (1 - skew * (bias + z))
        ends.append(np.quantile(means, norm.cdf(z)))
    return ends


def test_interval_is_bca():
    values = np.array([0.5, 1.2, 1.7, 2.0, 2.9, 6.1])
    low, high = interval(values)
    expected = bca(values)
    assert low == pytest.approx(expected[0], abs=0.06)
    assert high == pytest.approx(expected[1], abs=0.06)
    # Both ends lie above those of a plain percentile interval.
    plain = np.quantile([np.mean(s) for s in itertools.product(
        values, repeat=6)], [.025, .975])
    assert low > plain[0] + 0.06 and high > plain[1] + 0.06


def test_comparison_pairs_by_seed():
    result = compare({0: 5., 1: 7., 2: 9., 7: 100.}, {2: 5., 1: 5., 0: 4.})
    assert result.differences == (1., 2., 4.)
    assert result.mean == pytest.approx(7 / 3)
    assert result.p == pytest.approx(2 / 8)
    assert result.low < result.mean < result.high


def test_too_few_seeds_give_no_interval():
    assert compare({0: 1.}, {1: 1.}) is None
    one = compare({0: 3.}, {0: 1.})
    assert one.mean == 2 and math.isnan(one.p) and math.isnan(one.low)
    equal = compare(dict.fromkeys(range(3), 2.), dict.fromkeys(range(3), 1.))
    assert (equal.low, equal.high) == (1., 1.)


def test_correction_of_several_comparisons():
    # Benjamini-Hochberg: .01 * 3 / 1, min(.03 * 3 / 2, .04 * 3 / 3), .04
    assert correct([.01, .04, math.nan, .03]) == pytest.approx(
        [.03, .04, math.nan, .04], nan_ok=True)
    assert correct([]) == []


@pytest.mark.parametrize('seeds, enough', [(1, False), (5, False), (6, True)])
def test_how_many_seeds_a_test_needs(seeds, enough):
    """Of 5 the least p-value is 0.0625, of 6 0.03125."""
    found = compare(dict.fromkeys(range(seeds), 2.),
                    dict.fromkeys(range(seeds), 1.))
    assert found.testable is enough
