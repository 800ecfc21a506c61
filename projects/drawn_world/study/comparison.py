# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is a difference more than luck? Paired by seed.

The figures of two arms of one seed share the order of the data and the
beginning of the probe, so that differences are taken seed by seed. The
interval is a BCa bootstrap of their mean, the p-value that of the exact
sign-flip test; with n seeds it cannot fall below 2 / 2**n, so that six are
the least that can reach 0.05. Several comparisons are corrected together
(Benjamini and Hochberg), without those of fewer seeds, which could not reach
it whatever was measured and would only hide the others; the idea is Tarone's
("A modified Bonferroni method for discrete data", Biometrics 1990).
"""
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: The p-value below which a difference is said to be one.
LEVEL = 0.05
#: Means that are no farther apart are equal. Rows have four decimals, so that
#: each difference is off by 1e-4 at most, and so is a mean of them.
ROUNDING = 2e-4
#: Of more seeds than this the signs are drawn, not counted through.
COUNTED = 16


@dataclass(frozen=True)
class Comparison:
    """One arm against another.

    Attributes:
        differences: By seed, in the order of the seeds.
        mean: Of the differences.
        low: Lower end of the 95 % interval of the mean; NaN below 3 seeds.
        high: Upper end.
        p: Of the two-sided sign-flip test; NaN below 2 seeds.
    """
    differences: tuple[float, ...]
    mean: float
    low: float
    high: float
    p: float

    @property
    def testable(self) -> bool:
        """Whether its seeds are enough for any p-value below ``LEVEL``."""
        return 2 / 2**len(self.differences) < LEVEL

    @property
    def least(self) -> bool:
        """Whether no p-value of so many seeds could be lower."""
        return self.p <= 2 / 2**len(self.differences)


def compare(values: Mapping[int, float],
            baseline: Mapping[int, float]) -> Comparison | None:
    """Compare two arms on the seeds that both have.

    Args:
        values (Mapping[int, float]): A metric by seed.
        baseline (Mapping[int, float]): The same of the other arm.

    Returns:
        Comparison | None: None where they share no seed.
    """
    seeds = sorted(set(values) & set(baseline))
    differences = np.array([values[s] - baseline[s] for s in seeds])
    if not seeds:
        return None
    low, high = interval(differences)
    return Comparison(tuple(differences.tolist()), float(differences.mean()),
                      low, high, sign_flip(differences))


def interval(differences: np.ndarray) -> tuple[float, float]:
    """BCa bootstrap interval of a mean, 95 %; NaN below 3 values."""
    from scipy.stats import bootstrap
    if len(differences) < 3:
        return math.nan, math.nan
    if np.ptp(differences) == 0:
        return float(differences[0]), float(differences[0])
    result = bootstrap((differences, ), np.mean, method='BCa',
                       n_resamples=9999, rng=np.random.default_rng(0))
    return (float(result.confidence_interval.low),
            float(result.confidence_interval.high))


def sign_flip(differences: np.ndarray) -> float:
    """Two-sided p-value of the sign-flip test; NaN below 2 values.

    Exact up to ``COUNTED`` values; of more, 2**16 drawn flips say it, the
    same in every call. Flips whose means differ by no more than the rounding
    of the rows are as extreme as each other, as their figures were.
    """
    from scipy.stats import permutation_test
    if len(differences) < 2:
        return math.nan
    result = permutation_test((differences, ), np.mean,
                              permutation_type='samples',
                              n_resamples=2**min(len(differences), COUNTED),
                              rng=np.random.default_rng(0))
    extreme = np.abs(result.null_distribution) >= (
        abs(differences.mean()) - ROUNDING)
    if len(differences) <= COUNTED:
        return float(extreme.mean())
    # The observed one counts among those that were drawn.
    return float((extreme.sum() + 1) / (len(extreme) + 1))


def correct(p_values: Sequence[float]) -> list[float]:
    """Correct p-values of one family of questions; NaN stays NaN."""
    from scipy.stats import false_discovery_control
    known = [p for p in p_values if not math.isnan(p)]
    corrected = iter(false_discovery_control(known) if known else ())
    return [p if math.isnan(p) else float(next(corrected))
            for p in p_values]
