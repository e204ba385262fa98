"""Our estimate of a published number: what mean curves say of a method, and of a method beside its baseline, and the
means of what each run measured besides.

A resample draws seeds, for every task and learner on its own. Rows of one task and learner with the same seeds are
drawn together, so that a comparison is paired; others independently of each other. A metric is computed from the mean
curve of each resample, as a paper computes it from the mean over its seeds; over several tasks or learners its parts
are averaged first and compared then (VLM-RB, tables 1 and 8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reports import statistics
from reports.papers.measures import MEASURES
from reports.statistics import Array, Interval
from reports.summary import Row

_CHUNK = 1 << 22
"""Numbers in one chunk of resampled curves."""
_TOLERANCE = 1e-12


class Setting(NamedTuple):
    """One task and learner: the method's row and, where the number compares, its baseline's."""

    row: Row
    baseline: Row | None = None


class Parts(NamedTuple):
    """What a metric may need of one setting, each [1 + reps]: the point estimate, then that of each resample."""

    last: Array
    """Success rate at the last evaluation."""
    best: Array
    """Highest success rate of all evaluations."""
    area: Array
    """Under the curve, as a mean success rate."""
    steps: Array
    """Steps to the baseline's best, or without a baseline to its own; infinite where that is never reached."""
    seconds: Array
    """The time that so many steps took."""


class Metric(NamedTuple):
    """`value` of a method's parts, and of its baseline's where it compares; averaged over the settings before."""

    value: Callable[[Parts, Parts], Array]
    compares: bool = False
    """Says how far a method is from its baseline."""


def _gain(ours: Array, theirs: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(theirs > 0, 100 * (ours - theirs) / theirs, np.nan)


METRICS: dict[str, Metric] = {
    "area_under_curve": Metric(lambda ours, _: ours.area),
    "seconds_to_baseline_best": Metric(lambda ours, _: ours.seconds),
    "success_rate": Metric(lambda ours, _: ours.last),
    "success_percent": Metric(lambda ours, _: 100 * ours.last),
    "test_score": Metric(lambda ours, _: 100 * ours.last),
    "best_success_rate": Metric(lambda ours, _: ours.best),
    "steps_to_baseline_best": Metric(lambda ours, _: ours.steps),
    "gain_percent": Metric(lambda ours, theirs: _gain(ours.best, theirs.best), compares=True),
    "step_saving_percent": Metric(lambda ours, theirs: -_gain(ours.steps, theirs.steps), compares=True),
    "time_saving_percent": Metric(lambda ours, theirs: -_gain(ours.seconds, theirs.seconds), compares=True),
}
"""What a published metric's name means in terms of our curves; `MEASURES` are those of our logs, and any other needs
runs that do not exist yet."""


def is_known(metric: str) -> bool:
    return metric in METRICS or metric in MEASURES


def compares(metric: str) -> bool:
    """Whether a metric says how far a method is from its baseline."""
    return metric in METRICS and METRICS[metric].compares


def unmeasured(row: Row, metric: str) -> Array:
    """Of runs that keep no logs."""
    return np.full(len(row.seeds), np.nan)


class Estimator:
    """Metrics with 95 % percentile intervals from `reps` resamples.

    `seconds`: a row -> its per environment step; `measured`: a row and one of `MEASURES` -> a number per seed, or NaN.
    """

    def __init__(
        self, seconds: Callable[[Row], float], reps: int, measured: Callable[[Row, str], Array] = unmeasured
    ) -> None:
        self._seconds, self._reps, self._measured = seconds, reps, measured
        self._known: dict[tuple[int, int], Parts] = {}
        self._weights: dict[tuple[str, str, tuple[int, ...]], Array] = {}

    def __call__(self, metric: str, settings: Sequence[Setting]) -> Interval:
        """The metric over all `settings`.

        NaN ends with a single seed anywhere; NaN where it is not defined, as beside a baseline that never succeeded. An
        end may be infinite: the steps of resamples that do not reach their target.
        """
        return interval(self.samples(metric, settings), settings)

    def samples(self, metric: str, settings: Sequence[Setting]) -> Array:
        """The metric of the parts averaged over the settings: the point estimate, then each resample's, [1 + reps]."""
        if metric in MEASURES:
            return np.asarray(np.mean([self._means(setting.row, metric) for setting in settings], axis=0))
        ours = [self._parts(setting.row, setting.baseline) for setting in settings]
        theirs = [self._parts(setting.baseline or setting.row, None) for setting in settings]
        return METRICS[metric].value(_mean(ours), _mean(theirs))

    def lacks(self, row: Row, metric: str) -> bool:
        """Whether no run of a row wrote what a metric needs."""
        return metric in MEASURES and bool(np.isnan(self._measured(row, metric)).all())

    def _means(self, row: Row, metric: str) -> Array:
        """The mean over the runs that have a number, [1 + reps]; only the point estimate where it is one alone."""
        values, weights = self._measured(row, metric), self._drawn(row)
        known = np.isfinite(values)
        with np.errstate(invalid="ignore"):
            means = weights @ np.where(known, values, 0) / (weights @ known)
        if known.sum() < 2:
            means[1:] = np.nan
        return np.asarray(means)

    def _parts(self, row: Row, baseline: Row | None) -> Parts:
        key = (id(row), id(baseline))
        if key not in self._known:
            pieces = []
            size = max(1, _CHUNK // row.success.shape[1])
            weights = self._drawn(row)
            target = None if baseline is None else self._parts(baseline, None).best
            for start in range(0, len(weights), size):
                chunk = slice(start, start + size)
                curves = weights[chunk] @ row.success
                best = curves.max(axis=1)
                aim = best if target is None else target[chunk]
                area = best  # of a curve of one point: its height
                if len(row.steps) > 1:
                    area = statistics.area_under_curve(curves[:, None], row.steps)[:, 0]
                pieces.append((curves[:, -1], best, area, _reached(row.steps, curves, aim)))
            last, best, area, steps = (np.concatenate(piece) for piece in zip(*pieces, strict=True))
            self._known[key] = Parts(last, best, area, steps, steps * self._seconds(row))
        return self._known[key]

    def _drawn(self, row: Row) -> Array:
        """The weight of every seed, [1 + reps, seeds], the same for rows that are drawn together."""
        stratum = (row.where, row.cell.learner, row.seeds)
        if stratum not in self._weights:
            runs = len(row.seeds)
            generator = np.random.default_rng(statistics.name_seed(repr(stratum), 0))
            even = np.full((1, runs), 1 / runs)
            self._weights[stratum] = np.vstack([even, generator.multinomial(runs, even[0], size=self._reps) / runs])
        return self._weights[stratum]


def interval(samples: Array, settings: Sequence[Setting]) -> Interval:
    """Of a point estimate and its resamples, [1 + reps]; see `Estimator.__call__` for what is NaN."""
    point, drawn = samples[0], samples[1:]
    rows = [row for setting in settings for row in setting if row is not None]
    undefined = np.isnan(drawn).mean() > 1 - statistics.LEVEL
    if undefined or min(len(row.seeds) for row in rows) < 2:
        return Interval(np.asarray(point), np.asarray(np.nan), np.asarray(np.nan))
    tail = 100 * (1 - statistics.LEVEL) / 2
    ends = np.nanpercentile(drawn, [tail, 100 - tail], method="inverted_cdf")  # no arithmetic between infinities
    return Interval(np.asarray(point), *map(np.asarray, ends))


def _reached(steps: Array, curves: Array, target: Array) -> Array:
    """First of `steps` at which each of `curves` [n, checkpoints] is at its target [n]; NaN for a target of zero."""
    hit = curves >= target[:, None] - _TOLERANCE
    first = np.where(hit.any(axis=1), np.asarray(steps, float)[hit.argmax(axis=1)], np.inf)
    return np.where(target > 0, first, np.nan)


def _mean(parts: Sequence[Parts]) -> Parts:
    return Parts(*(np.mean(values, axis=0) for values in zip(*parts, strict=True)))
