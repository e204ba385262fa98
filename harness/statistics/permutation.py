"""The permutation test of two samples of runs: how often a difference as large arises if labels are given at random.

Runs of two methods that are equal are exchangeable: any choice of n of the n + m runs of a task could have been the
first method's. A relabelling makes such a choice in every task, independently of the other tasks, and p is the share of
relabellings whose difference is at least as large as the observed one, in either direction. All relabellings are used
if there are at most `RELABELLINGS`, else `DRAWS` random ones beside the observed one, so p is (1 + b) / (1 + `DRAWS`).
Seeds are never paired: runs of one seed share nothing but the layouts of their evaluations.

Equal differences count, and those of an interquartile mean or a median are often equal, since an extreme run may change
places without effect. Of two relabellings with the same difference the one with the larger difference of means is then
the more extreme.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics.aggregates import METRICS
from guidebench.harness.statistics.resampling import LEVEL, Array, rejects

RELABELLINGS = 50_000
"""Most relabellings of which all are used."""
DRAWS = 10_000
SEED = 0
"""Seed of the drawn relabellings: the same data have the same p."""
ROUNDING = 1e-9
"""Share of the range of the scores below which differences count as equal."""
_SUMS = (1 << 16) - 1
"""Most sums that are computed at once: they stay in the processor's cache, and their counts fit 16 bits."""
_STEPS, _HALVINGS = 32, 30
"""Shifts among which the outermost that is not rejected is searched, and halvings of the step beyond it."""
_WIDEST = 2.5
"""Multiple of the range of all scores: a shift that is further from the difference lays all runs of one sample above
those of the other."""


class Relabellings(NamedTuple):
    """Relabellings of n and m runs, of which the first leaves every run where it is."""

    first: Array
    """Whether a run of both samples, the first ones' before, is among the first: uint8 [tasks, n + m, relabellings]."""
    exact: bool


def count(n: int, m: int, tasks: int = 1) -> int:
    """Return the number of relabellings."""
    return int(comb(n + m, n) ** tasks)


def smallest_p(n: int, m: int, tasks: int = 1) -> float:
    """Return the smallest p value that samples of n and m runs can have: each run of one above all of the other."""
    every = count(n, m, tasks)
    return (2 if n == m else 1) / every if every <= RELABELLINGS else 1 / (1 + DRAWS)


def can_tell(n: int, m: int, tasks: int = 1, level: float = LEVEL) -> bool:
    """Return whether any scores of so many runs could differ at this level; four runs beside four are the fewest."""
    return bool(rejects(smallest_p(n, m, tasks), level))


def separable_pairs(runs: int, level: float = LEVEL) -> int:
    """Return the most pairs of rows with this many runs of one task that a test of all pairs can tell apart at once.

    Each of them must have a p value below (1 - level) / pairs: .05 · C(2n, n) / 2, so none with 3 runs, 1 with 4.

    >>> [separable_pairs(runs) for runs in (3, 4, 5, 6)]
    [0, 1, 6, 23]
    """
    return ceil((1 - level) / smallest_p(runs, runs) - ROUNDING) - 1


@lru_cache(maxsize=8)
def relabellings(n: int, m: int, tasks: int = 1) -> Relabellings:
    """Return all relabellings if there are at most `RELABELLINGS`, else the observed one and `DRAWS` random ones."""
    if count(n, m, tasks) > RELABELLINGS:
        rng = np.random.default_rng(SEED)
        masks = np.zeros((tasks, n + m, 1 + DRAWS), np.uint8)
        masks[:, :n, 0] = 1
        for task in masks:
            keys = rng.random((DRAWS, n + m), dtype=np.float32)
            positions = np.argpartition(keys, n - 1, axis=1)[:, :n]
            task[positions.T, np.arange(1, 1 + DRAWS)] = 1
        return Relabellings(masks, False)
    subsets = np.zeros((n + m, comb(n + m, n)), np.uint8)
    for index, subset in enumerate(combinations(range(n + m), n)):
        subsets[list(subset), index] = 1
    choices = np.indices((subsets.shape[1],) * tasks).reshape(tasks, -1)
    return Relabellings(np.stack([subsets[:, choice] for choice in choices]), True)


def p_of_means(first: Array, second: Array) -> Array:
    """Return the p value of each pair of samples of one task: scores [n, pairs] and [m, pairs] -> [pairs].

    Sums over the runs that a relabelling gives to the first sample are a matrix product.
    """
    n = len(first)
    pooled = np.concatenate([first, second]).astype(float)
    pooled = pooled - pooled.mean(axis=0)  # both means are off by as much, and rounding is relative to the differences
    labels = relabellings(n, len(second))
    first_sets = labels.first[0]
    if labels.exact and n == len(second):
        # The half that keeps the first run; the other sets are its mirror images.
        first_sets = first_sets[:, : first_sets.shape[1] // 2]
    allowed = np.abs(pooled[:n].sum(axis=0)) - ROUNDING * n * np.ptp(pooled, axis=0)
    beyond = np.zeros(pooled.shape[1], int)
    first_sets = np.ascontiguousarray(first_sets.T, float)
    for start in range(0, len(first_sets), size := max(1, _SUMS // pooled.shape[1])):
        sums = first_sets[start : start + size] @ pooled
        are_beyond = np.abs(sums, out=sums) >= allowed
        beyond += np.add.reduce(are_beyond.view(np.uint8), axis=0, dtype=np.uint16)  # faster than `count_nonzero`
    return beyond / len(first_sets)


def p_value(first: Array, second: Array, metric: str = "mean") -> float:
    """Return the two-sided p value of the difference of an aggregate (`METRICS`); scores [n, tasks] and [m, tasks].

    1 if the aggregates are equal.
    """
    if metric == "mean" and first.shape[1] == 1:
        return float(p_of_means(first, second)[0])
    return _p(*_differences(first, second, metric), ROUNDING * _range(first, second))


def interval(first: Array, second: Array, metric: str = "mean", level: float = LEVEL) -> tuple[float, float]:
    """Return the ends of the set of shifts that are not rejected: of `first` less the shift beside `second`, p is at
    least 1 - level. Infinite where no shift is rejected. It leaves out 0 exactly where `p_value` is below 1 - level."""
    low, high = _of_means(first, second, level) if metric == "mean" else _searched(first, second, metric, level)
    if not rejects(p_value(first, second, metric), level):
        return min(low, 0.0), max(high, 0.0)  # where an end is 0 but for rounding
    return low, high


def one_sided_p(first: Array, second: Array, below: float) -> float:
    """Return the p value of the hypothesis that the mean of `first` exceeds that of `second` by `below` or more;
    scores as in `p_value`."""
    (gaps, _), rounding = _differences(first - below, second, "mean"), ROUNDING * _range(first - below, second)
    return float(np.mean(gaps <= gaps[0] + rounding))


def _of_means(first: Array, second: Array, level: float) -> tuple[float, float]:
    """Return the ends in closed form (`shifted_ends`).

    A relabelling that keeps a share of the first runs has, under a shift d - u below the observed difference d, the
    difference e + u c, with c the difference of these shares and e = its own difference - c d.
    """
    n, m, tasks = len(first), len(second), first.shape[1]
    gaps, _ = _differences(first, second, "mean")
    labels = relabellings(n, m, tasks).first
    unmoved = labels[:, :n].sum(axis=1, dtype=float)  # [tasks, relabellings]
    return shifted_ends(gaps, (unmoved / n - (n - unmoved) / m).mean(axis=0), level)


def shifted_ends(statistics: Array, share: Array, level: float) -> tuple[float, float]:
    """Return the least and the greatest shift that is not rejected, of a statistic that a shift changes linearly.

    `statistics` [relabellings]: the statistic of each relabelling, the observed d first. `share` [relabellings]: by how
    much the relabelled statistic changes if the true one changes by 1; 1 for the observed one. Under a shift d - u
    below d a relabelling has e + u c, c being its share and e = its statistic - c d. It is as extreme as the observed u
    while |e + u c| ≥ u, so up to e / (1 - c) or -e / (1 + c); above d likewise with -c. So p falls on either side of d.
    """
    rest = statistics - share * statistics[0]
    needed = ceil((1 - level) * len(statistics) - ROUNDING)
    ends = []
    for factor in (share, -share):
        with np.errstate(divide="ignore", invalid="ignore"):
            furthest = np.where(rest > 0, rest / (1 - factor), -rest / (1 + factor))
        furthest[np.abs(share) > 1 - ROUNDING] = np.inf  # all runs stay, or all change sides
        ends.append(float(np.partition(furthest, len(furthest) - needed)[len(furthest) - needed]))
    return float(statistics[0]) - ends[0], float(statistics[0]) + ends[1]


def _searched(first: Array, second: Array, metric: str, level: float) -> tuple[float, float]:
    """Return the ends: of evenly spaced shifts the outermost that is not rejected, and then by halving."""
    gap = float(METRICS[metric].point(first) - METRICS[metric].point(second))
    widest = _WIDEST * _range(first, second)

    def accepted(shift: float) -> bool:
        return not rejects(p_value(first - shift, second, metric), level)

    still = accepted(0.0)
    ends = []
    for side in (-1.0, 1.0):
        inside, outside = gap, gap + side * widest
        if side * -gap > 0:  # 0 is on this side
            inside, outside = (0.0, outside) if still else (gap, 0.0)
        if outside and accepted(outside):
            ends.append(side * np.inf)
            continue
        shifts = np.linspace(outside, inside, _STEPS)
        place = next(place for place in range(1, _STEPS) if place == _STEPS - 1 or accepted(float(shifts[place])))
        inside, outside = float(shifts[place]), float(shifts[place - 1])
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _differences(first: Array, second: Array, metric: str) -> tuple[Array, Array]:
    """Return the difference of the aggregate, and that of the mean, for each relabelling: two arrays, the observed
    differences first."""
    labels = relabellings(len(first), len(second), first.shape[1]).first
    pooled = np.concatenate([first, second])
    pooled = (pooled - pooled.mean())[:, :, None]
    others = 1 - labels
    means = METRICS["mean"].resampled(pooled, labels)[0] - METRICS["mean"].resampled(pooled, others)[0]
    if metric == "mean":
        return means, means
    resampled = METRICS[metric].resampled
    return resampled(pooled, labels)[0] - resampled(pooled, others)[0], means


def _p(gaps: Array, means: Array, rounding: float) -> float:
    size, tie = np.abs(gaps), np.abs(means)
    if size[0] <= rounding:
        return 1.0
    equal = np.abs(size - size[0]) <= rounding
    return float(np.mean((size > size[0] + rounding) | (equal & (tie >= tie[0] - rounding))))


def _range(first: Array, second: Array) -> float:
    return float(max(first.max(), second.max()) - min(first.min(), second.min()))
