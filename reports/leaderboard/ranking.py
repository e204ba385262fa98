"""Who is better than whom by the test: ranks with ties and intervals.

A row's score is the interquartile mean (IQM) of its final scores over runs and tasks. Its percentile interval shows the
spread of its runs, with draws that depend on its name and scores alone, so rows elsewhere on the board change nothing.
Two scores are told apart by the one test (`guidebench.harness.statistics.comparison`), since the percentile interval of
a few runs is too narrow: with three seeds on one task it sets one of two equal rows below the other in a fifth of
cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval, Sample, distribution, name_seed
from guidebench.harness.statistics.resampling import ends, spread

METRIC = "iqm"
REPS = 10_000
"""Resamples per score. With so many, the interval's ends vary by one or two hundredths of its width."""
ERROR = 0.05
"""Significance level of the test of two table rows, and of the rank intervals jointly over the whole board."""
_DIGITS = 9  # Rounding makes sums of the same scores equal, whatever their order.


class Ranks(NamedTuple):
    """Ranks of n rows, as arrays [n]."""

    rank: Array
    """1 + the number of rows that are better by the test at 5 %, not corrected for their number."""
    low: Array
    """Best and worst rank that the tests of all pairs allow, with Bonferroni's correction for all pairs."""
    high: Array


def resamples(scores: Array, name: str, reps: int = REPS) -> Array:
    """Return the IQM of each of `reps` bootstrap resamples of final scores [runs, tasks], rounded to nine decimals,
    [reps]. Needs at least two runs; `name` seeds the draws."""
    rng = np.random.default_rng(name_seed(name, 0))
    values, times = distribution(scores[:, :, None], [METRIC], reps, rng)
    return np.round(spread(values[METRIC][0], times, rng), _DIGITS)


def scored(scores: Array, name: str, reps: int = REPS) -> Interval:
    """Return the IQM of final scores [runs, tasks] with its interval, whose ends are NaN with one run; `name` seeds the
    resamples."""
    point = np.round(statistics.iqm(scores), _DIGITS)
    if len(scores) < 2:
        return Interval(point, np.asarray(np.nan), np.asarray(np.nan))
    return Interval(point, *ends(resamples(scores, name, reps)))


def ranks(rows: Sequence[Sample]) -> Ranks:
    """Return ranks among rows of at least two runs each, of the same tasks, higher being better.

    Of two equal rows one is ranked below the other in at most 5 % of cases. The intervals contain all true ranks
    together in at least 95 %.
    """
    values = [round(row.value(METRIC), _DIGITS) for row in rows]
    pairs = max(1, comb(len(rows), 2))
    rank, low, high = (np.ones(len(rows), int) for _ in Ranks._fields)
    high[:] = len(rows)
    for (i, j), p in statistics.all_pairs(rows, METRIC).items():
        better, worse = (i, j) if values[i] > values[j] else (j, i)
        rank[worse] += p < ERROR
        low[worse] += p < ERROR / pairs
        high[better] -= p < ERROR / pairs
    return Ranks(rank, low, high)
