"""Stratified resampling of runs: seeded draws, in chunks that fit in the processor's cache.

A resample draws, within each task and independently of the other tasks, as many runs as there are, with replacement
(Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"). It is stored as *how
often each run was drawn*, counts [tasks, runs, n], rather than as gathered scores: an average over all resamples is
then a matrix product, and scores are sorted only once.

One task with few runs has few different resamples (five runs: 126). They are then enumerated rather than repeated: each
is stored once, with the number of times it was drawn.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEVEL = 0.95
REPS = 50_000
CURVE_REPS = 5_000
"""Resamples for a band or another number at every checkpoint; randomness moves its ends by a hundredth of its width."""
ONE_RUN = "one run: no interval"
CHUNK_BYTES = 1 << 26
_CHUNK_REPS = 1 << 15
_ROUNDING = 1e-12
_BYTES_A_RUN = 8  # bytes of a float64 count; derived arrays add up to three times as much


class Interval(NamedTuple):
    """A point estimate between the ends of its percentile interval; the ends are NaN with only one run."""

    estimate: Array
    low: Array
    high: Array


class Resamples(NamedTuple):
    """Bootstrap resamples of runs: for each of n distinct resamples, how often it holds each run [tasks, runs, n], and
    how often that resample was drawn; None if each was drawn once."""

    counts: Array
    times: Array | None


def draws(runs: int, tasks: int, reps: int, rng: np.random.Generator) -> Iterator[Resamples]:
    """Yield `reps` resamples in chunks."""
    if tasks == 1 and comb(2 * runs - 1, runs) <= reps // 4:
        counts, chances = _every_resample(runs)
        yield Resamples(counts, rng.multinomial(reps, chances))
        return
    for size in chunks(reps, runs * tasks):
        yield Resamples(draw_resamples(runs, tasks, size, rng), None)


def chunks(reps: int, scores: int) -> Iterator[int]:
    """Return chunk sizes that add up to `reps`, for resamples of this many scores each."""
    size = int(np.clip(CHUNK_BYTES // (scores * _BYTES_A_RUN), 1, _CHUNK_REPS))
    for start in range(0, reps, size):
        yield min(size, reps - start)


def draw_resamples(runs: int, tasks: int, size: int, rng: np.random.Generator) -> Array:
    """Draw `size` resamples as counts [tasks, runs, size], one after the other, so that chunking does not change
    them."""
    kind = np.uint8 if runs < 2**8 else np.uint16
    picks = rng.integers(0, runs, size=(size, tasks, runs), dtype=np.uint32)  # no bits are left over at a chunk's end
    picked = np.ascontiguousarray(picks.transpose(1, 2, 0), dtype=kind)
    counts = np.empty((tasks, runs, size), kind)
    for run in range(runs):  # comparing whole rows at once is several times as fast as np.bincount
        counts[:, run] = (picked == run).view(np.uint8).sum(axis=1, dtype=kind)
    return counts


@lru_cache(maxsize=8)
def _every_resample(runs: int) -> tuple[Array, Array]:
    """Enumerate the different resamples of one task, counts [1, runs, n], with their probabilities [n]."""
    counts = np.array([np.bincount(one, minlength=runs) for one in combinations_with_replacement(range(runs), runs)])
    orders = np.array([factorial(runs) // prod(map(factorial, one)) for one in counts.tolist()])
    return counts.T[None].astype(np.uint8), orders / runs**runs


def spread(values: Array, times: Array | None, rng: np.random.Generator) -> Array:
    """Repeat values [n] as often as they were drawn, [reps], in random order so that they can be paired with others."""
    return values if times is None else rng.permutation(np.repeat(values, times))


def ends(values: Array, level: float = LEVEL, times: Array | None = None) -> Array:
    """Return the ends, [2, ...], of resampled values [..., n] without the (1 - level) / 2 lowest and highest."""
    reps = values.shape[-1] if times is None else int(times.sum())
    cut = int((1 - level) / 2 * reps + 1e-9)
    places = [cut, reps - 1 - cut]
    if times is None:
        return np.asarray(np.moveaxis(np.partition(values, places, axis=-1)[..., places], -1, 0))
    order = np.argsort(values, axis=-1)
    upto = np.cumsum(times[order], axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    return np.stack(
        [np.take_along_axis(ordered, (upto <= place).sum(axis=-1)[..., None], axis=-1)[..., 0] for place in places]
    )


def rejects(p: Any, level: float = LEVEL) -> Any:
    """Return whether p, a number or an array, is below 1 - level by more than rounding: 1 in 20 is not below 5 %.

    >>> rejects(1 / 20), 1 / 20 < 1 - LEVEL
    (False, True)
    """
    return p < 1 - level - _ROUNDING


def name_seed(name: str, seed: int) -> int:
    """Return a seed for `name`: the same in every table, different for different names."""
    return zlib.crc32(name.encode(), seed & 0xFFFFFFFF)


def checked(scores: Array, shape: str = "[runs, tasks] or [runs, tasks, checkpoints]") -> Array:
    """Return the scores as floats. Raise ValueError if they are not of this shape, empty or not finite."""
    scores = np.asarray(scores, dtype=float)
    dimensions = {1 + choice.count(",") for choice in shape.split(" or ")}
    if scores.ndim not in dimensions or 0 in scores.shape:
        raise ValueError(f"scores have shape {scores.shape}; expected {shape}")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold NaN or infinite values; leave the missing runs out and say so")
    return scores


def checked_pair(first: Array, second: Array) -> tuple[Array, Array]:
    """Return both as [runs, tasks] of the same tasks; the numbers of runs may differ. Raise ValueError otherwise."""
    first, second = checked(first, "[runs, tasks]"), checked(second, "[runs, tasks]")
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"scores have shapes {first.shape} and {second.shape}; expected the same tasks (axis 1) in both"
        )
    return first, second
