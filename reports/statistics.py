"""Aggregates over runs and tasks with stratified bootstrap intervals: pure functions of arrays, seeded, vectorised.

The definitions are those of rliable (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice"): a resample draws, within each task and independently of the other tasks, as many runs as
there are, with replacement; an interval holds the middle 95 % of the resampled aggregates.

A resample is kept as *how often each run was drawn*, counts [tasks, runs, reps], rather than as gathered scores.
A mean is then a matrix product, and the interquartile mean needs no sort per resample: scores are sorted once, and
counts accumulated along that order say which share of each score lies in the middle half.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]

LEVEL = 0.95
POWER = 0.8
REPS = 50_000
ONE_RUN = "one run: no interval"
_CHUNK_BYTES = 1 << 26


class Interval(NamedTuple):
    """A point estimate between the ends of its percentile interval; NaN ends where there is only one run."""

    estimate: Array
    low: Array
    high: Array


def mean(scores: Array) -> Array:
    """Mean over tasks of the mean over runs; scores [runs, tasks, ...] -> [...]."""
    return np.asarray(np.mean(np.mean(scores, axis=0), axis=0))


def median(scores: Array) -> Array:
    """Median over tasks of the mean over runs; scores [runs, tasks, ...] -> [...]."""
    return np.asarray(np.median(np.mean(scores, axis=0), axis=0))


def iqm(scores: Array) -> Array:
    """Interquartile mean: mean of the runs × tasks scores without their lowest and highest quarter (rounded down)."""
    flat = np.reshape(scores, (scores.shape[0] * scores.shape[1], *scores.shape[2:]))
    low, high = _middle(len(flat))
    return np.asarray(np.mean(np.partition(flat, (low, high - 1), axis=0)[low:high], axis=0))


def optimality_gap(scores: Array, gamma: float = 1.0) -> Array:
    """How far the mean score stays below `gamma`, scores above it counted as `gamma`; [runs, tasks, ...] -> [...]."""
    return np.asarray(gamma - np.mean(np.minimum(scores, gamma), axis=(0, 1)))


def _middle(count: int) -> tuple[int, int]:
    cut = int(0.25 * count)
    return cut, count - cut


def _resampled_mean(scores: Array, counts: Array) -> Array:
    """scores [runs, tasks], counts [tasks, runs, reps] -> [reps]."""
    return np.asarray(np.mean(_task_means(scores, counts), axis=0))


def _resampled_median(scores: Array, counts: Array) -> Array:
    return np.asarray(np.median(_task_means(scores, counts), axis=0))


def _task_means(scores: Array, counts: Array) -> Array:
    """Mean over runs per task of each resample, [tasks, reps]."""
    means = np.zeros((counts.shape[0], counts.shape[2]))
    for task, drawn in enumerate(counts):
        for run, times in enumerate(drawn):
            if scores[run, task] != 0:  # failures are common in sparse tasks and add nothing
                means[task] += scores[run, task] * times
    means /= scores.shape[0]
    return means


def _resampled_iqm(scores: Array, counts: Array) -> Array:
    """Interquartile mean of each resample, [reps], from counts accumulated in the order of the scores.

    With sorted scores s_1..s_n and accumulated counts C_i cut to [low, high], the middle half holds C_i - C_(i-1)
    copies of s_i. Summed by parts only the steps between distinct scores remain: s_n high - s_1 low - Σ (s_(i+1) -
    s_i) C_i.
    """
    values = scores.T.reshape(-1)
    order = np.argsort(values, kind="stable")
    low, high = _middle(len(values))
    ordered, drawn = values[order], counts.reshape(len(values), -1)
    total = np.full(drawn.shape[1], ordered[-1] * high - ordered[0] * low)
    below: Array = np.zeros(drawn.shape[1], np.int16 if len(values) < 2**15 else np.int32)
    for place, step in zip(order[:-1], np.diff(ordered), strict=True):
        below += drawn[place]
        if step > 0:
            total -= step * np.clip(below, low, high)
    return np.asarray(total / (high - low))


def _resampled_gap(scores: Array, counts: Array) -> Array:
    return 1.0 - _resampled_mean(np.minimum(scores, 1.0), counts)


class Metric(NamedTuple):
    """An aggregate: of scores [runs, tasks, ...] -> [...], and of a chunk of resamples -> [reps]."""

    point: Callable[[Array], Array]
    resampled: Callable[[Array, Array], Array]


METRICS: dict[str, Metric] = {
    "mean": Metric(mean, _resampled_mean),
    "median": Metric(median, _resampled_median),
    "iqm": Metric(iqm, _resampled_iqm),
    "optimality_gap": Metric(optimality_gap, _resampled_gap),
}


def draws(runs: int, tasks: int, reps: int, rng: np.random.Generator) -> Iterator[Array]:
    """Resamples in chunks: counts [tasks, runs, n] of how often each run was drawn; over all chunks n sums to reps."""
    dtype = np.uint8 if runs < 2**8 else np.uint16
    size = int(np.clip(_CHUNK_BYTES // (runs * tasks * 4), 1, reps))
    for start in range(0, reps, size):
        chunk = min(size, reps - start)
        counts = np.empty((tasks, runs, chunk), dtype)
        offsets = np.arange(chunk)
        for task in range(tasks):
            drawn = rng.integers(0, runs, size=(runs, chunk), dtype=dtype)
            flat = drawn.astype(np.intp)
            flat *= chunk
            flat += offsets
            counts[task] = np.bincount(flat.reshape(-1), minlength=runs * chunk).reshape(runs, chunk)
        yield counts


def distribution(scores: Array, metrics: Sequence[str], reps: int, rng: np.random.Generator) -> dict[str, Array]:
    """Each metric over the same `reps` resamples of scores [runs, tasks, checkpoints], name -> [checkpoints, reps]."""
    runs, tasks, checkpoints = scores.shape
    found = {name: np.empty((checkpoints, reps)) for name in metrics}
    start = 0
    for counts in draws(runs, tasks, reps, rng):
        stop = start + counts.shape[2]
        for index in range(checkpoints):
            for name, values in found.items():
                values[index, start:stop] = METRICS[name].resampled(scores[:, :, index], counts)
        start = stop
    return found


def intervals(scores: Array, metrics: Sequence[str], reps: int = REPS, seed: int = 0) -> dict[str, Interval]:
    """Metrics of scores [runs, tasks] (numbers) or [runs, tasks, checkpoints] (arrays [checkpoints]) with intervals.

    Every checkpoint is resampled with the same draws, since it is runs that are drawn; a whole run is in or out.
    Raises ValueError for scores of another shape or not finite.
    """
    scores = _checked(scores)
    curve = scores.reshape(*scores.shape[:2], -1)
    checkpoints = curve.shape[2]
    ends = {name: np.full((2, checkpoints), np.nan) for name in metrics}
    if len(scores) > 1:
        block = max(1, _CHUNK_BYTES // (8 * reps * max(1, len(metrics))))
        for start in range(0, checkpoints, block):
            part = slice(start, start + block)
            resamples = distribution(curve[:, :, part], metrics, reps, np.random.default_rng(seed))
            for name, values in resamples.items():
                ends[name][:, part] = _ends(values)
    found = {}
    for name in metrics:
        point = METRICS[name].point(scores)
        low, high = (end.reshape(point.shape) for end in ends[name])
        found[name] = Interval(point, low, high)
    return found


def difference(first: Array, second: Array, metric: str, reps: int = REPS, seed: int = 0) -> Interval:
    """Metric of `first` minus that of `second` (each [runs, tasks]), both resampled independently of each other."""
    first, second = _checked(first), _checked(second)
    estimate = METRICS[metric].point(first) - METRICS[metric].point(second)
    if min(len(first), len(second)) < 2:
        return Interval(estimate, np.asarray(np.nan), np.asarray(np.nan))
    streams = np.random.default_rng(seed).spawn(2)
    ours, theirs = (
        distribution(scores[:, :, None], [metric], reps, stream)[metric][0]
        for scores, stream in zip((first, second), streams, strict=True)
    )
    return Interval(estimate, *_ends(ours - theirs))


def detectable_difference(first: Array, second: Array) -> float:
    """The smallest difference of means that so many runs could have shown, from scores [n] and [m].

    (t_.975 + t_.8) s sqrt(1/n + 1/m): what a two-sample t test at 5 %, two-sided, finds with a power of 80 %; t are
    quantiles at n + m - 2 degrees of freedom, s is the standard deviation between runs pooled over both. NaN where s
    cannot be estimated: fewer than two runs, or runs that do not differ (s = 0), which says nothing of other runs.
    """
    from scipy import stats

    n, m = len(first), len(second)
    if min(n, m) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return float("nan")
    freedom = n + m - 2
    squares = np.sum((first - np.mean(first)) ** 2) + np.sum((second - np.mean(second)) ** 2)
    quantiles = stats.t.ppf([0.5 + LEVEL / 2, POWER], freedom)
    return float(np.sum(quantiles) * np.sqrt(squares / freedom) * np.sqrt(1 / n + 1 / m))


def aggregate(scores: Mapping[str, Array], reps: int = REPS, seed: int = 0) -> pd.DataFrame:
    """Mean, median, IQM and optimality gap per method with 95 % intervals.

    `scores`: method -> [runs, tasks]. Columns: method, metric, estimate, low, high, note. A method with one run has
    NaN for low and high and a note that says why. A method's interval depends on its name, its scores and `seed`,
    not on which other methods stand beside it.
    """
    import pandas as pd

    rows = []
    for method, values in scores.items():
        found = intervals(values, list(METRICS), reps, name_seed(method, seed))
        note = ONE_RUN if len(values) < 2 else ""
        for metric, (estimate, low, high) in found.items():
            rows.append((method, metric, float(estimate), float(low), float(high), note))
    return pd.DataFrame(rows, columns=["method", "metric", "estimate", "low", "high", "note"])


def name_seed(name: str, seed: int) -> int:
    """A seed for what is called `name`: the same in every table, different for different names."""
    return zlib.crc32(name.encode(), seed & 0xFFFFFFFF)


def _ends(values: Array) -> Array:
    tail = 100 * (1 - LEVEL) / 2
    return np.asarray(np.percentile(values, [tail, 100 - tail], axis=-1))


def _checked(scores: Array) -> Array:
    scores = np.asarray(scores, dtype=float)
    if scores.ndim not in (2, 3) or 0 in scores.shape:
        raise ValueError(f"scores have shape {scores.shape}; expected [runs, tasks] or [runs, tasks, checkpoints]")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold NaN or infinite values; leave the missing runs out and say so")
    return scores
