"""How many seeds a difference like the observed one needs: the power of the test in studies resampled from these
seeds.

A study of n seeds a side draws n of each method's seeds with replacement. Up to `EXACT` seeds it is tested as reports
test it, by all relabellings; above, by Student's t test of the same difference, which then rejects about as often. The
answer rests on the seeds at hand: few of them show little of the spread between seeds.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from guidebench.harness.statistics import permutation
from guidebench.harness.statistics.resampling import LEVEL, Array, rejects

MOST = 100
"""Most seeds that are considered."""
STUDIES = 2_000
POWER = 0.8
EXACT = 7
"""Most seeds a side of which all relabellings are used."""
_SCREENED, _HOPELESS = 400, 0.65
"""Studies tested first, and the share of them below which the others cannot bring the whole to `POWER`: seven standard
errors."""


def seeds_needed(first: Array, second: Array, level: float = LEVEL) -> float:
    """Return the smallest number of seeds a side with which the test at this level finds a difference of means in 80 %
    of 2,000 studies resampled from scores [n] and [m] of one task.

    Infinite above `MOST`, NaN if a side has one run.
    """
    if min(len(first), len(second)) < 2:
        return float("nan")
    drawn = _resampled(np.asarray(first, float), np.asarray(second, float))
    for runs in range(2, EXACT + 1):
        if permutation.can_tell(runs, runs, level=level) and _exact(*drawn, runs, level) >= POWER:
            return float(runs)
    enough = np.flatnonzero(t_test_power(*drawn, level)[EXACT - 1 :] >= POWER)
    return float(enough[0] + EXACT + 1) if len(enough) else float("inf")


def _resampled(first: Array, second: Array) -> tuple[Array, Array]:
    """Return scores of seeds drawn with replacement, [MOST, STUDIES] each, less a common number."""
    middle = (first.mean() + second.mean()) / 2
    return (first - middle)[_draws(len(first), 0)], (second - middle)[_draws(len(second), 1)]


@lru_cache(maxsize=32)
def _draws(runs: int, side: int) -> Array:
    return np.random.default_rng([runs, side]).integers(0, runs, size=(MOST, STUDIES))


def _exact(first: Array, second: Array, runs: int, level: float) -> float:
    """Return the share of studies whose first `runs` seeds a side differ by the exact test."""

    def rejected(studies: slice) -> int:
        found = permutation.p_of_means(first[:runs, studies], second[:runs, studies])
        return int(np.count_nonzero(rejects(found, level)))

    screened = rejected(slice(_SCREENED))
    if screened < _HOPELESS * _SCREENED:
        return screened / _SCREENED
    return (screened + rejected(slice(_SCREENED, None))) / int(first.shape[1])


def t_test_power(first: Array, second: Array, level: float = LEVEL) -> Array:
    """Return the share of studies, [seeds], whose first 1, 2, … seeds a side differ by Student's t test; scores [seeds,
    studies]. 0 with one seed."""
    runs = np.arange(1, len(first) + 1)[:, None]
    sums = first.cumsum(axis=0), second.cumsum(axis=0)
    squares = (first**2).cumsum(axis=0) + (second**2).cumsum(axis=0)
    within = squares - (sums[0] ** 2 + sums[1] ** 2) / runs  # of both sides, about their means
    gaps = (sums[0] - sums[1]) / runs
    rounding = permutation.ROUNDING * np.maximum(np.abs(first).max(), np.abs(second).max()) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        error = _quantiles(len(first), level)[:, None] ** 2 * np.maximum(within, 0) / (runs * (runs - 1))
    shares = np.mean(gaps**2 > error + rounding, axis=1)
    shares[0] = 0.0
    return np.asarray(shares)


@lru_cache(maxsize=8)
def _quantiles(most: int, level: float) -> Array:
    """Return the t test's critical value for each number of seeds a side; NaN for one."""
    from scipy import stats

    return np.asarray(stats.t.isf((1 - level) / 2, 2.0 * np.arange(most)))
