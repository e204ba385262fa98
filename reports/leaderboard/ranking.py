"""Who is better than whom by the test: ranks with ties and intervals.

A row's score is the interquartile mean (IQM) of its final scores over runs and tasks. Each row is resampled on
its own, stratified by task (guidebench.reports.statistics), with draws that depend on its name and scores alone, so
rows elsewhere on the board change nothing. Two scores are told apart by Welch's t test with the bootstrap's standard
errors, since the percentile interval of a few runs is too narrow: with three seeds on one task it sets one of two
equal rows below the other in a fifth of cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from guidebench.reports import statistics
from guidebench.reports.statistics import Array, Contrast, Interval, Spread, distribution, name_seed
from guidebench.reports.statistics.comparison import ROUNDING
from guidebench.reports.statistics.resampling import ends, spread

REPS = 10_000
"""Resamples per score. With so many, the interval's ends vary by one or two hundredths of its width."""
ERROR = 0.05
"""Significance level of the test of two table rows, and of the rank intervals jointly over the whole board."""
_DIGITS = 9  # Rounding makes sums of the same scores equal, whatever their order.


class Scored(NamedTuple):
    """A row's score with its percentile interval, and the spread that a test of differences uses."""

    score: Interval
    spread: Spread


class Ranks(NamedTuple):
    """Ranks of n rows, as arrays [n]."""

    rank: Array
    """1 + the number of rows that are better by the test at 5 %, not corrected for their number."""
    low: Array
    """Best and worst rank that the tests of all pairs allow, with Bonferroni's correction for all pairs."""
    high: Array


def resamples(scores: Array, name: str, reps: int = REPS) -> Array:
    """Return the IQM of each resample of final scores [runs, tasks], [reps], to nine decimals; needs at least two
    runs."""
    rng = np.random.default_rng(name_seed(name, 0))
    values, times = distribution(scores[:, :, None], ["iqm"], reps, rng)
    return np.round(spread(values["iqm"][0], times, rng), _DIGITS)


def scored(scores: Array, name: str, reps: int = REPS) -> Scored:
    """Return the spread of final scores [runs, tasks]; its ends are NaN with one run, which cannot be ranked."""
    point = np.round(statistics.iqm(scores), _DIGITS)
    if len(scores) < 2:
        return Scored(Interval(point, np.asarray(np.nan), np.asarray(np.nan)), statistics.spread_of(scores))
    found = resamples(scores, name, reps)
    return Scored(Interval(point, *ends(found)), statistics.bootstrapped(found, scores))


def contrast(first: Array, second: Array, name: str, paired: bool) -> Contrast:
    """Test the score of the first minus that of the second, final scores [runs, tasks]; `paired`: they have the same
    seeds."""
    gap = float(statistics.iqm(first) - statistics.iqm(second))
    if not paired:
        return statistics.told(gap, scored(first, f"{name}/first").spread, scored(second, f"{name}/second").spread)
    if len(first) < 2:
        return statistics.told(gap, statistics.spread_of(first - second))
    rng = np.random.default_rng(name_seed(name, 0))
    values, times = distribution(np.stack([first, second], axis=2), ["iqm"], REPS, rng)
    ours, theirs = values["iqm"]
    return statistics.told(gap, statistics.bootstrapped(spread(ours - theirs, times, rng), first - second))


def ranks(rows: Sequence[Scored], sign: int = 1) -> Ranks:
    """Return ranks among rows of at least two runs each; `sign` is -1 where the lowest score is best.

    Of two equal rows one is ranked below the other in at most about 5 % of cases. The intervals contain all true ranks
    together in at least 95 %.
    """
    values = sign * np.array([float(each.score.estimate) for each in rows])
    spreads = Spread(*(np.array(part, float) for part in zip(*(each.spread for each in rows), strict=True)))
    pairs = max(1, comb(len(rows), 2))
    rank, low, high = (np.empty(len(rows), int) for _ in Ranks._fields)
    for index, value in enumerate(values):
        own = Spread(*(part[index] for part in spreads))
        gap = values - value
        p = _p_values(gap, spreads, own)
        rank[index] = 1 + np.count_nonzero((gap > 0) & (p < ERROR))
        low[index] = 1 + np.count_nonzero((gap > 0) & (p < ERROR / pairs))
        high[index] = len(rows) - np.count_nonzero((gap < 0) & (p < ERROR / pairs))
    return Ranks(rank, low, high)


def _p_values(gap: Array, spreads: Spread, own: Spread) -> Array:
    """Return the p value, as `Contrast.p`, of each gap [n] between rows of `spreads` [n] and one of `own`."""
    from scipy import stats

    errors = statistics.welch(spreads, own)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.stack([2 * stats.t.sf(np.abs(gap) / error, freedom) for error, freedom in errors])
    least = np.array([statistics.least(int(runs), int(own.runs)) for runs in spreads.runs])
    still = np.where(np.abs(gap) > ROUNDING, least, 1.0)
    return np.where(errors[-1][0] > 0, found.max(axis=0, where=~np.isnan(found), initial=0.0), still)
