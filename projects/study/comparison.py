# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Differences of pairs, with t intervals, and their verdicts."""
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

    @property
    def is_constant(self) -> bool:
        """Whether there is no interval since all seeds agree."""
        return (len(self.differences) >= MIN_INTERVAL
                and math.isnan(self.low))

    def __str__(self) -> str:
        """As '+3.0 [+1.4, +4.6]'."""
        text = f'{self.mean:+.1f}'
        if not math.isnan(self.low):
            text += f' [{self.low:+.1f}, {self.high:+.1f}]'
        return text


def compare(values: Mapping[int, float],
            baseline: Mapping[int, float]) -> Comparison | None:
    """Compare a metric of two arms on the seeds that both have.

    Args:
        values (Mapping[int, float]): The metric by seed.
        baseline (Mapping[int, float]): The same of the other arm.

    Returns:
        Comparison | None: None if they share no seed. Without an interval if
        there are few, or if nothing varies: then all are one measurement.
    """
    seeds = sorted(set(values) & set(baseline))
    if not seeds:
        return None
    differences = np.array([values[seed] - baseline[seed] for seed in seeds])
    low = high = math.nan
    if len(seeds) >= MIN_INTERVAL and np.ptp(differences):
        low, high = stats.ttest_1samp(differences, 0.).confidence_interval()
    return Comparison(differences, differences.mean(), low, high)


def joint_verdict(comparisons: Mapping[str, Comparison]) -> str:
    """The verdict that all probes agree on.

    Args:
        comparisons (Mapping[str, Comparison]): One for each probe.

    Returns:
        str: ``'no'`` if only some find it worse, ``''`` if one has no verdict,
        and, of probes that disagree, ``'undecided'`` and what each finds.
    """
    verdicts = {name: comparison.verdict
                for name, comparison in comparisons.items()}
    found = set(verdicts.values())
    if not found or '' in found:
        return ''
    if len(found) == 1:
        return found.pop()
    if found == {'no', 'no, worse'}:
        return 'no'
    each = []
    for name, verdict in verdicts.items():
        each.append(f'{name} {verdict}')
    return f'undecided: probes disagree ({"; ".join(each)})'
