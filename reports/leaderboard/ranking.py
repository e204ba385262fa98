"""Who is better than whom by the bootstrap: ranks with ties and intervals, from resamples of every row's score.

A row's score is the interquartile mean (IQM) of its final success rates over runs and tasks. Each row is resampled on
its own, stratified by task (reports.statistics), with draws that depend on its name and scores alone, so rows elsewhere
on the board change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reports.statistics import Array, distribution, name_seed
from reports.statistics.resampling import ends, spread

REPS = 10_000
"""Resamples of a score. Chance moves the ends of its interval by a hundredth of its width or two."""
FEWEST_REPS = 1_000
WORK = 4 * 10**9
"""Comparisons of two resampled scores that ranks of many rows may take; beyond it fewer resamples are compared."""
LEVEL = 0.95
_DIGITS = 9  # sums of the same scores in another order are to be equal


class Ranks(NamedTuple):
    """Of n rows, arrays [n]."""

    rank: Array
    """1 + the number of rows that are surely better: the interval of the difference of scores leaves out 0."""
    low: Array
    """Best rank within the interval over resamples; rows that tie share all ranks they take up."""
    high: Array


def resamples(scores: Array, name: str, reps: int = REPS) -> Array:
    """IQM of each resample of final success rates [runs, tasks], [reps], to nine decimals; at least two runs."""
    rng = np.random.default_rng(name_seed(name, 0))
    values, times = distribution(scores[:, :, None], ["iqm"], reps, rng)
    return np.round(spread(values["iqm"][0], times, rng), _DIGITS)


def compared(rows: int, reps: int = REPS) -> int:
    """How many resamples of each of so many rows are compared."""
    return int(min(reps, max(FEWEST_REPS, WORK // max(rows, 1) ** 2)))


def ranks(resampled: Array) -> Ranks:
    """Ranks from resampled scores [rows, reps], which were drawn independently of each other.

    A rank's interval holds the middle 95 % of its ranks over resamples and the rank itself, which counts only what is
    sure and so may be better than most of them.
    """
    rows, reps = resampled.shape
    distinct, codes = np.unique(resampled, return_inverse=True)
    codes = codes.reshape(rows, reps).astype(np.int16 if len(distinct) < 2**15 else np.int32)
    sure = reps - int((1 - LEVEL) / 2 * reps + 1e-9)
    count = next(kind for kind in (np.uint8, np.uint16, np.uint32) if rows <= np.iinfo(kind).max)
    rank, first, last = np.empty(rows, int), np.empty(rows, int), np.empty(rows, int)
    above = np.zeros((rows, -(-reps // 8) * 8), bool)  # a row is whole words
    for index, own in enumerate(codes):
        np.greater(codes, own, out=above[:, :reps])
        rank[index] = 1 + np.count_nonzero(np.bitwise_count(above.view(np.uint64)).sum(axis=1) >= sure)
        higher = above[:, :reps].view(np.uint8).sum(axis=0, dtype=count)
        level = (codes == own).view(np.uint8).sum(axis=0, dtype=count)
        first[index] = 1 + int(ends(higher)[0])
        last[index] = ends(higher + level)[1]
    return Ranks(rank, np.minimum(first, rank), np.maximum(last, rank))
