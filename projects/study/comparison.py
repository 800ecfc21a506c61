# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Differences of pairs, with t intervals."""
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

#: Minimum number of seeds for an interval.
MIN_INTERVAL = 3
#: Minimum gain that would matter, in points: see PLAN.md.
MATTERS = 2.


class Comparison(NamedTuple):
    """Differences by seed, their mean, and its 95 % interval or NaN."""
    differences: np.ndarray
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``'yes'``, ``'no'``, ``'no, worse'`` or ``'undecided'``.

        It is ``''`` without an interval.
        """
        if math.isnan(self.low):
            return ''
        if self.low > 0:
            return 'yes'
        if self.high < 0:
            return 'no, worse'
        return 'no' if self.high < MATTERS else 'undecided'


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
    differences = np.array([values[seed] - baseline[seed] for seed in seeds])
    mean = low = high = differences.mean()
    if len(seeds) < MIN_INTERVAL:
        low = high = math.nan
    elif np.ptp(differences):
        low, high = stats.ttest_1samp(differences, 0.).confidence_interval()
    return Comparison(differences, mean, low, high)
