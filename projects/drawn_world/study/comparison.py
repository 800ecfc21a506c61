# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Differences of pairs, with t intervals."""
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

#: The fewest seeds for an interval.
MIN_INTERVAL = 3
#: The least gain that would matter, in points: see PLAN.md.
MATTERS = 2.


class Comparison(NamedTuple):
    """Differences by seed, their mean, and its 95 % interval or NaN."""
    differences: np.ndarray
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``'yes'``, ``'no'``, ``'no, worse'``, ``'undecided'`` or ``''``.

        The last without an interval.
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
    differences = np.array([values[s] - baseline[s] for s in seeds])
    return Comparison(differences, differences.mean(), *interval(differences))


def interval(differences: np.ndarray) -> tuple[float, float]:
    """The 95 % t interval of the mean of paired differences."""
    if len(differences) < MIN_INTERVAL:
        return math.nan, math.nan
    if np.ptp(differences) == 0:
        return differences[0], differences[0]
    found = stats.ttest_1samp(differences, 0.).confidence_interval(0.95)
    return float(found.low), float(found.high)
