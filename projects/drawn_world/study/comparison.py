# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Statistics of two arms, paired by seed.

The intervals are BCa bootstraps of the mean difference; the p-values are
those of exact sign-flip tests, corrected together for each question
(Benjamini and Hochberg). With n seeds a p-value is at least 2 / 2**n, so that
six seeds are the fewest that can reach 0.05. Comparisons of fewer seeds get
no p-value and do not count in the correction (Tarone, "A modified Bonferroni
method for discrete data", Biometrics 1990).
"""
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import (
    bootstrap,
    false_discovery_control,
    permutation_test,
)

#: The fewest seeds for a test, and for an interval.
MIN_TEST, MIN_INTERVAL = 6, 3
#: Means this close are ties: rows are rounded to four decimals.
ROUNDING = 2e-4


class Comparison(NamedTuple):
    """The differences between two arms, by seed, and their mean.

    ``low`` and ``high`` bound the 95 % interval of the mean; they and ``p``
    are NaN with too few seeds.
    """
    differences: np.ndarray
    mean: float
    low: float
    high: float
    p: float


def compare(values: Mapping[int, float],
            baseline: Mapping[int, float]) -> Comparison | None:
    """Compare a metric of two arms on the seeds that both have.

    Args:
        values (Mapping[int, float]): The metric by seed.
        baseline (Mapping[int, float]): The same of the other arm.

    Returns:
        Comparison | None: None if they share no seed.
    """
    seeds = sorted(set(values) & set(baseline))
    if not seeds:
        return None
    differences = np.array([values[s] - baseline[s] for s in seeds])
    return Comparison(differences, differences.mean(), *interval(differences),
                      sign_flip(differences))


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The 95 % BCa bootstrap interval of a mean."""
    if len(differences) < MIN_INTERVAL:
        return math.nan, math.nan
    if np.ptp(differences) == 0:
        return differences[0], differences[0]
    result = bootstrap((differences, ), np.mean, method='BCa',
                       n_resamples=9999, rng=np.random.default_rng(0))
    return result.confidence_interval


def sign_flip(differences: np.ndarray) -> float:
    """The two-sided p-value of the exact sign-flip test."""
    if len(differences) < MIN_TEST:
        return math.nan
    result = permutation_test(
        (differences, ), np.mean, permutation_type='samples',
        n_resamples=2**16, rng=np.random.default_rng(0))
    return np.mean(np.abs(result.null_distribution)
                   >= abs(result.statistic) - ROUNDING)


def correct(p_values: Sequence[float]) -> np.ndarray:
    """Correct the p-values of one question; NaN stays NaN."""
    corrected = np.array(p_values)
    known = ~np.isnan(corrected)
    if known.any():
        corrected[known] = false_discovery_control(corrected[known])
    return corrected
