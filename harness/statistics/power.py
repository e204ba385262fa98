"""How many seeds a difference like the observed one needs: the power of the test in studies resampled from these
seeds.

A study of n seeds a side draws n of each method's seeds with replacement. Up to `EXACT` seeds it is tested as reports
test it, by all relabellings; above, by Student's t test of the same difference, which then rejects about as often. The
answer rests on the seeds at hand: few of them show little of the spread between seeds.

Over several tasks a study draws n seeds a side within each task, and the test relabels within tasks. Where all
relabellings of all studies are too many for a table, a normal distribution of the same variance stands for those of one
study; a sum over tasks makes it close.
"""

from __future__ import annotations

from collections.abc import Iterator
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
MOST_TASKS = 30
"""Most tasks over which seeds are counted: of more, a row would take longer than 20 ms (`unknown`)."""
STUDIES_OVER_TASKS, LEAST_STUDIES = 1_000, 100
"""Studies over several tasks, by the number of tasks, and the fewest of them: each has a draw for every task."""
_GAPS = 1 << 19
"""Most relabelled differences, over all studies, up to which all are used over several tasks."""
_SCREENED, _HOPELESS = 400, 0.65
"""Studies tested first, and the share of them below which the others cannot bring the whole to `POWER`: seven standard
errors."""
_NUMBERS = 50_000
"""Most numbers of an array in between: memory for larger ones is returned to the system and cleared again each time,
which takes longer than to compute with them."""


def seeds_needed(first: Array, second: Array, level: float = LEVEL) -> float:
    """Return the smallest number of seeds a side with which the test at this level finds a difference of means in 80 %
    of 2,000 studies resampled from scores [n] and [m] of one task, or [n, tasks] and [m, tasks].

    Of several tasks there are 1,000 studies by the number of tasks, but at least 100. Infinite above `MOST`, NaN if a
    side has one run and for more than `MOST_TASKS` tasks.
    """
    tasks = first.shape[1] if first.ndim > 1 else 1
    if unknown(len(first), len(second), tasks):
        return float("nan")
    if tasks > 1:
        return _over_tasks(np.asarray(first, float), np.asarray(second, float), level)
    first, second = (np.reshape(scores, len(scores)) for scores in (first, second))
    resamples = _resampled(np.asarray(first, float), np.asarray(second, float))
    for runs in range(2, EXACT + 1):
        if permutation.can_tell(runs, runs, level=level) and _exact(*resamples, runs, level) >= POWER:
            return float(runs)
    enough = np.flatnonzero(t_test_power(*resamples, level)[EXACT - 1 :] >= POWER)
    return float(enough[0] + EXACT + 1) if len(enough) else float("inf")


def unknown(n: int, m: int, tasks: int = 1) -> str:
    """Return why the number of seeds needed is not known for samples of n and m runs; "" where it is."""
    if min(n, m) < 2:
        return "one seed shows no spread"
    return f"not counted over more than {MOST_TASKS} tasks" if tasks > MOST_TASKS else ""


def _over_tasks(first: Array, second: Array, level: float) -> float:
    """Return `seeds_needed` for scores [n, tasks] and [m, tasks] of several tasks."""
    tasks = first.shape[1]
    studies = max(LEAST_STUDIES, STUDIES_OVER_TASKS // tasks)
    middle = (first.mean(axis=0) + second.mean(axis=0)) / 2
    ours = _drawn_by_task(first - middle, 0, studies)
    theirs = _drawn_by_task(second - middle, 1, studies)
    powers = normal_power(ours, theirs, level)
    for runs in range(2, MOST + 1):
        if not permutation.can_tell(runs, runs, tasks, level):
            continue
        few = permutation.count(runs, runs, tasks) * studies <= _GAPS
        if (exact_power(ours[:runs], theirs[:runs], level) if few else powers[runs - 1]) >= POWER:
            return float(runs)
    return float("inf")


def _drawn_by_task(scores: Array, side: int, studies: int) -> Array:
    """Return seeds drawn with replacement within each task, [MOST, tasks, studies]."""
    tasks = scores.shape[1]
    return np.asarray(scores[_draws_by_task(len(scores), side, tasks, studies), np.arange(tasks)[:, None]])


@lru_cache(maxsize=8)
def _draws_by_task(runs: int, side: int, tasks: int, studies: int) -> Array:
    return np.random.default_rng([runs, side, tasks]).integers(0, runs, size=(MOST, tasks, studies))


def exact_power(first: Array, second: Array, level: float = LEVEL) -> float:
    """Return the share of studies whose seeds a side, [runs, tasks, studies] as many, differ by all relabellings."""
    runs, tasks, studies = first.shape
    pooled = np.concatenate([first, second])
    pooled = pooled - pooled.mean(axis=0)
    labels = permutation.relabellings(runs, runs, tasks).first  # [tasks, 2 runs, relabellings]
    flat = np.ascontiguousarray(labels.reshape(tasks * 2 * runs, -1).T, float)
    gaps = np.abs(flat @ pooled.transpose(1, 0, 2).reshape(tasks * 2 * runs, studies))
    room = permutation.ROUNDING * float(np.ptp(pooled)) * runs * tasks
    p_values = np.mean(gaps >= gaps[0] - room, axis=0)
    return float(np.mean(rejects(p_values, level)))


def normal_power(first: Array, second: Array, level: float = LEVEL) -> Array:
    """Return the share of studies, [seeds], whose first 1, 2, … seeds a side differ by a normal test with the variance
    of the relabellings; scores [seeds, tasks, studies] of both sides. 0 with one seed."""
    from scipy import stats

    runs = np.arange(1, len(first) + 1)[:, None, None]
    room = permutation.ROUNDING * max(float(np.abs(first).max()), float(np.abs(second).max())) ** 2
    rejected = np.zeros(len(first), int)
    for ours, theirs in _blocks(first, second):
        sums = _cumulative(ours), _cumulative(theirs)
        squares = _cumulative(ours**2 + theirs**2)
        within = np.maximum(squares - (sums[0] + sums[1]) ** 2 / (2 * runs), 0.0)  # about the mean of both sides
        variance = (within / (2 * runs - 1) * 2 / runs).sum(axis=1)
        gaps = ((sums[0] - sums[1]) / runs).sum(axis=1)
        far = gaps**2 > float(stats.norm.isf((1 - level) / 2)) ** 2 * variance + room
        rejected += np.count_nonzero(far, axis=1)
    return np.where(runs[:, 0, 0] > 1, rejected / first.shape[-1], 0.0)


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
        p_values = permutation.p_of_means(first[:runs, studies], second[:runs, studies])
        return int(np.count_nonzero(rejects(p_values, level)))

    screened = rejected(slice(_SCREENED))
    if screened < _HOPELESS * _SCREENED:
        return screened / _SCREENED
    return (screened + rejected(slice(_SCREENED, None))) / int(first.shape[1])


def t_test_power(first: Array, second: Array, level: float = LEVEL) -> Array:
    """Return the share of studies, [seeds], whose first 1, 2, … seeds a side differ by Student's t test; scores [seeds,
    studies]. 0 with one seed."""
    runs = np.arange(1, len(first) + 1)[:, None]
    rounding = permutation.ROUNDING * np.maximum(np.abs(first).max(), np.abs(second).max()) ** 2
    rejected = np.zeros(len(first), int)
    for ours, theirs in _blocks(first, second):
        sums = _cumulative(ours), _cumulative(theirs)
        squares = _cumulative(ours**2) + _cumulative(theirs**2)
        within = squares - (sums[0] ** 2 + sums[1] ** 2) / runs  # of both sides, about their means
        gaps = (sums[0] - sums[1]) / runs
        with np.errstate(divide="ignore", invalid="ignore"):
            error = _quantiles(len(first), level)[:, None] ** 2 * np.maximum(within, 0) / (runs * (runs - 1))
        rejected += np.count_nonzero(gaps**2 > error + rounding, axis=1)
    return np.where(runs[:, 0] > 1, rejected / first.shape[-1], 0.0)


def _blocks(first: Array, second: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the scores of as many studies, the last axis, as arrays of `_NUMBERS` hold."""
    studies = max(1, _NUMBERS // first[..., 0].size)
    for start in range(0, first.shape[-1], studies):
        yield first[..., start : start + studies], second[..., start : start + studies]


def _cumulative(scores: Array) -> Array:
    """Return the sums of the first 1, 2, … seeds; scores [seeds, …]. The bits are those of `numpy.cumsum`, which takes
    seven times as long along an axis that is not the last."""
    sums = np.empty_like(scores)
    total = sums[0] = scores[0]
    for seed in range(1, len(scores)):
        total = np.add(total, scores[seed], out=sums[seed])
    return sums


@lru_cache(maxsize=8)
def _quantiles(most: int, level: float) -> Array:
    """Return the t test's critical value for each number of seeds a side; NaN for one."""
    from scipy import stats

    return np.asarray(stats.t.isf((1 - level) / 2, 2.0 * np.arange(most)))
