"""Mean, median, interquartile mean and optimality gap, as numbers and curves with bootstrap intervals.

The definitions are those of rliable (Agarwal et al. 2021). Each is a function of scores [runs, tasks, ...] and, for
speed, one of resamples given as counts. For the interquartile mean scores are sorted once, and counts accumulated along
that order say which share of each score lies in the middle half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.statistics.resampling import (
    CHUNK_BYTES,
    LEVEL,
    REPS,
    Array,
    Interval,
    checked,
    draws,
    ends,
)


def mean(scores: Array) -> Array:
    """Return the mean over tasks of the mean over runs; scores [runs, tasks, ...] -> [...]."""
    return np.asarray(np.mean(np.mean(scores, axis=0), axis=0))


def median(scores: Array) -> Array:
    """Return the median over tasks of the mean over runs; scores [runs, tasks, ...] -> [...]."""
    return np.asarray(np.median(np.mean(scores, axis=0), axis=0))


def iqm(scores: Array) -> Array:
    """Return the interquartile mean: the mean of the runs × tasks scores without the lowest and highest quarter (each
    rounded down)."""
    flat = np.reshape(scores, (scores.shape[0] * scores.shape[1], *scores.shape[2:]))
    low, high = _middle(len(flat))
    return np.asarray(np.mean(np.partition(flat, (low, high - 1), axis=0)[low:high], axis=0))


def optimality_gap(scores: Array, gamma: float = 1.0) -> Array:
    """Return how far the mean score is below `gamma`, where higher scores count as `gamma`; [runs, tasks, ...] ->
    [...]."""
    return np.asarray(gamma - np.mean(np.minimum(scores, gamma), axis=(0, 1)))


def _middle(count: int) -> tuple[int, int]:
    cut = int(0.25 * count)
    return cut, count - cut


def _resampled_mean(scores: Array, counts: Array) -> Array:
    """Map scores [runs, tasks, checkpoints] and counts [tasks, runs, n] to [checkpoints, n]."""
    flat = counts.reshape(counts.shape[0] * counts.shape[1], -1)
    return np.asarray(_by_task(scores).T @ flat.astype(float) / _resample_size(counts))


def _resampled_median(scores: Array, counts: Array) -> Array:
    weights = counts.astype(float)
    medians = np.empty((scores.shape[2], counts.shape[2]))
    for index, row in enumerate(medians):
        totals = np.matmul(scores[:, :, index].T[:, None], weights)[:, 0]  # [tasks, n]
        row[:] = np.median(totals, axis=0)
    medians /= _resample_size(counts) // len(counts)
    return medians


def _resampled_iqm(scores: Array, counts: Array) -> Array:
    """Return the interquartile mean of each resample from counts accumulated in the order of the scores.

    With sorted scores s_1..s_n and accumulated counts C_i clipped to [low, high], the middle half holds C_i - C_(i-1)
    copies of s_i. After summation by parts only the steps between distinct scores remain: s_n high - s_1 low - Σ
    (s_(i+1) - s_i) C_i.
    """
    values, drawn = _by_task(scores), counts.reshape(-1, counts.shape[2])
    low, high = _middle(_resample_size(counts))
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    means = np.empty((scores.shape[2], counts.shape[2]))
    for index, total in enumerate(means):
        column = ordered[:, index]
        total[:] = column[-1] * high - column[0] * low
        below: Array = np.zeros(counts.shape[2], np.int16 if len(values) < 2**15 else np.int32)
        for place, step in zip(order[:-1, index], np.diff(column), strict=True):
            below += drawn[place]
            if step > 0:
                total -= step * np.clip(below, low, high)
    means /= high - low
    return means


def _resampled_gap(scores: Array, counts: Array) -> Array:
    return np.asarray(1.0 - _resampled_mean(np.minimum(scores, 1.0), counts))


def _resample_size(counts: Array) -> int:
    """Return how many scores a resample has: as many in each task, and as many in each resample."""
    return int(counts[:, :, 0].sum())


def _by_task(scores: Array) -> Array:
    """Reshape [runs, tasks, checkpoints] -> [tasks × runs, checkpoints], the order of counts."""
    return np.asarray(scores.transpose(1, 0, 2).reshape(-1, scores.shape[2]))


class Metric(NamedTuple):
    """An aggregate: a function of scores [runs, tasks, ...] -> [...], and one of scores and resamples -> [checkpoints,
    n]. A resample may have fewer runs than the scores, as one of two samples has of both together."""

    point: Callable[[Array], Array]
    resampled: Callable[[Array, Array], Array]


METRICS: dict[str, Metric] = {
    "mean": Metric(mean, _resampled_mean),
    "median": Metric(median, _resampled_median),
    "iqm": Metric(iqm, _resampled_iqm),
    "optimality_gap": Metric(optimality_gap, _resampled_gap),
}


def distribution(
    scores: Array, metrics: Sequence[str], reps: int, rng: np.random.Generator
) -> tuple[dict[str, Array], Array | None]:
    """Return each metric over the same resamples of scores [runs, tasks, checkpoints]: name -> [checkpoints, n].

    Also return how often each of the n was drawn, [n] with the sum `reps`; None if n is `reps`.
    """
    parts: dict[str, list[Array]] = {name: [] for name in metrics}
    runs, tasks = scores.shape[:2]
    times = None
    for counts, times in draws(runs, tasks, reps, rng):  # noqa: B007
        for name, values in parts.items():
            values.append(METRICS[name].resampled(scores, counts))
    return {name: np.concatenate(values, axis=1) for name, values in parts.items()}, times


def intervals(
    scores: Array, metrics: Sequence[str], reps: int = REPS, seed: int = 0, level: float = LEVEL
) -> dict[str, Interval]:
    """Return metrics of scores [runs, tasks] (numbers) or [runs, tasks, checkpoints] (arrays [checkpoints]) with
    intervals.

    Every checkpoint uses the same draws, since runs are drawn: a whole run is in or out. With the metric `iqm` the
    second form is a sample-efficiency curve. Raises ValueError for scores of another shape or not finite.
    """
    scores = checked(scores)
    curve = scores.reshape(*scores.shape[:2], -1)
    checkpoints = curve.shape[2]
    bounds = {name: np.full((2, checkpoints), np.nan) for name in metrics}
    if len(scores) > 1:
        block = max(1, CHUNK_BYTES // (8 * reps * max(1, len(metrics))))
        for start in range(0, checkpoints, block):
            part = slice(start, start + block)
            resamples, times = distribution(curve[:, :, part], metrics, reps, np.random.default_rng(seed))
            for name, values in resamples.items():
                bounds[name][:, part] = ends(values, level, times)
    points = {name: METRICS[name].point(scores) for name in metrics}
    return {name: Interval(point, *bounds[name].reshape(2, *point.shape)) for name, point in points.items()}
