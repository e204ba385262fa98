"""Coverage of the bootstrap's percentile intervals: with few runs they contain the true mean far less often than
stated."""

from __future__ import annotations

import numpy as np

from guidebench.harness.statistics.aggregates import intervals
from guidebench.harness.statistics.resampling import LEVEL

ENOUGH = 10
"""Number of runs below which a report warns."""
NORMAL = {
    2: 0.50,
    3: 0.75,
    4: 0.79,
    5: 0.83,
    6: 0.86,
    7: 0.87,
    8: 0.88,
    9: 0.89,
    10: 0.90,
    15: 0.92,
    20: 0.93,
    30: 0.93,
}
"""Runs -> coverage of the 95 % interval of a mean of normal scores on one task (`python -m benchmarks.error_rates`)."""
SOLVED = 0.8
"""Probability that a run solves its task in the other case, in which its score is 1 or 0."""


def coverage(runs: int) -> tuple[float, float]:
    """Return the coverage of the interval of this many runs (at least two): for normal scores, and for runs that solve
    the task or fail.

    Between the numbers of runs in `NORMAL` it is that of the next smaller.
    """
    return NORMAL[max(size for size in NORMAL if size <= runs)], solved(runs)


def simulated(runs: int, samples: int, reps: int = 10_000, seed: int = 0) -> float:
    """Return the coverage for normal scores, over `samples` samples of this many runs."""
    scores = np.random.default_rng(seed).normal(size=(runs, 1, samples))
    interval = intervals(scores, ["mean"], reps, seed)["mean"]
    return float(np.mean((interval.low <= 0) & (interval.high >= 0)))


def solved(runs: int, chance: float = SOLVED) -> float:
    """Return, in closed form, the coverage if a run's score is 1 with this probability, else 0."""
    from scipy import stats

    count = np.arange(runs + 1)
    low, high = stats.binom.ppf([[(1 - LEVEL) / 2], [(1 + LEVEL) / 2]], runs, count / runs)
    is_solved = (low <= chance * runs) & (chance * runs <= high)
    return float(stats.binom.pmf(count, runs, chance)[is_solved].sum())
