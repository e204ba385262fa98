"""Estimates of published numbers from our runs: metrics of mean curves, of a method alone or compared with its
baseline, and means of the numbers in runs' logs.

A resample draws the seeds of every row independently: runs of one seed share nothing but the layouts of their
evaluations. A metric is computed from the mean curve
of each resample, as a paper computes it from the mean over its seeds. Over several tasks or learners its parts are
averaged before they are compared (VLM-RB, tables 1 and 8).

The standard error is the spread of the resamples with its variance scaled by n / (n - 1), which a bootstrap of n seeds
lacks; for a mean it is then s / sqrt(n). The infinitesimal jackknife gives the share of each stratum of seeds that are
drawn together (Efron 2014, "Estimation and Accuracy After Model Selection", equation 3.6), and the shares give the
degrees of freedom (Welch, Satterthwaite). Intervals are t intervals, except those of gains and differences of which
every seed has a number: these are of the one exact test (`comparisons`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import LEVEL, Array, Interval
from guidebench.reports.papers import comparisons, equivalence
from guidebench.reports.papers.equivalence import SUCCESS, Estimate
from guidebench.reports.papers.measures import MEASURES, WORKED
from guidebench.reports.summary.rows import ReportRow

_CHUNK = 1 << 22
"""Numbers in one chunk of resampled curves."""
_TOLERANCE = 1e-12
_NO_SEED = -1
"""Number of the imagined seed."""


class Setting(NamedTuple):
    """One task and learner: the method's row and, for a comparison, its baseline's."""

    row: ReportRow
    baseline: ReportRow | None = None


class Parts(NamedTuple):
    """Inputs of a metric for one setting, each [1 + reps]: the point estimate, then the estimate of each resample."""

    last: Array
    """Success rate at the last evaluation."""
    best: Array
    """Highest success rate of all evaluations."""
    area: Array
    """Area under the curve, as a mean success rate."""
    steps: Array
    """Steps to the baseline's best, or without a baseline to the method's own; infinite if never reached."""
    seconds: Array
    """Duration of these steps."""
    deviation: Array
    """Standard deviation between seeds of the success rate at the last evaluation."""


def _at_best(success: Array) -> Array:
    return np.asarray(success[:, success.mean(axis=0).argmax()])


def _at_last(success: Array) -> Array:
    return np.asarray(success[:, -1])


class Metric(NamedTuple):
    """How a metric is computed from the parts of a method and, for a comparison, of its baseline, each averaged over
    settings first."""

    value: Callable[[Parts, Parts], Array]
    compares: bool = False
    """Whether it states the distance of a method from its baseline."""
    of_seeds: Callable[[Array], Array] = _at_best
    """Function from success rates [seeds, checkpoints] to the score of each seed that the metric depends on."""


class Estimated(NamedTuple):
    """An estimated metric: the interval to show, and the estimate to test against a published value."""

    interval: Interval
    """95 % interval; its ends are NaN with a single seed, and infinite where resamples do not reach their target."""
    tested: Estimate
    interval_note: str = ""
    """Text instead of the interval of a comparison, where there are too few seeds for one; else ""."""


def _gain(ours: Array, theirs: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(theirs > 0, 100 * (ours - theirs) / theirs, np.nan)


METRICS: dict[str, Metric] = {
    "area_under_curve": Metric(lambda ours, _: ours.area, of_seeds=lambda success: success.mean(axis=1)),
    "seconds_to_baseline_best": Metric(lambda ours, _: ours.seconds),
    "success_rate": Metric(lambda ours, _: ours.last, of_seeds=_at_last),
    "success_rate_sd": Metric(lambda ours, _: ours.deviation, of_seeds=_at_last),
    "success_percent": Metric(lambda ours, _: 100 * ours.last, of_seeds=_at_last),
    "test_score": Metric(lambda ours, _: 100 * ours.last, of_seeds=_at_last),
    "best_success_rate": Metric(lambda ours, _: ours.best),
    "steps_to_baseline_best": Metric(lambda ours, _: ours.steps),
    "gain_percent": Metric(lambda ours, theirs: _gain(ours.best, theirs.best), compares=True),
    "step_saving_percent": Metric(lambda ours, theirs: -_gain(ours.steps, theirs.steps), compares=True),
    "time_saving_percent": Metric(lambda ours, theirs: -_gain(ours.seconds, theirs.seconds), compares=True),
}
"""Published metric -> its definition on our curves. `MEASURES` are read from our logs; any other metric needs runs that
do not exist yet."""


FORMULAS: dict[str, Callable[[Array, Array], Array]] = {
    "difference": lambda ours, theirs: ours - theirs,
    "shortfall": lambda ours, theirs: theirs - ours,
    "gain": lambda ours, theirs: 100 * (ours - theirs) / theirs,
    "saving": lambda ours, theirs: 100 * (theirs - ours) / theirs,
    "share": lambda ours, theirs: 100 * ours / theirs,
}
"""Kind of comparison (`comparisons.KINDS`) -> function from samples of a metric of a method, and of its baseline, to
samples of their comparison."""
COMPARISONS: dict[str, tuple[str, str]] = {
    "relative_speed_percent": ("steps_per_second", "share"),
    **{
        f"{name}_change_percent": (name, "gain")
        for name in ("seconds_per_clip", "frames_per_second", "gibibytes_load", "gibibytes_peak")
    },
}
"""Metrics that compare one of `MEASURES` with the baseline's."""


def measured_by(metric: str) -> str:
    """Return the metric that a comparison in `COMPARISONS` computes for either side; any other metric is returned
    unchanged."""
    return COMPARISONS[metric][0] if metric in COMPARISONS else metric


def is_known(metric: str) -> bool:
    return metric in METRICS or measured_by(metric) in MEASURES


def compares(metric: str) -> bool:
    """Return whether a metric states by how much a method is above or below its baseline."""
    return (metric in METRICS and METRICS[metric].compares) or metric.endswith("_change_percent")


def episodes(rows: Sequence[ReportRow]) -> int:
    """Return the number of episodes in the last evaluation of all seeds of these rows."""
    return int(sum(row.counts[:, -1].sum() for row in rows))


def unmeasured(row: ReportRow, metric: str) -> Array:
    """Return NaN for each seed of a row: the measure of runs without logs."""
    return np.full(len(row.seeds), np.nan)


class Estimator:
    """Estimates metrics with their errors from `reps` resamples.

    `measured` maps a row and one of `MEASURES` to a number per seed, or NaN.
    """

    def __init__(self, reps: int, measured: Callable[[ReportRow, str], Array] = unmeasured) -> None:
        self._reps, self._measured = reps, measured
        self._parts_of: dict[tuple[int, int], Parts] = {}
        self._weights: dict[tuple[str, str, tuple[int, ...]], Array] = {}
        self._imagined: dict[tuple[int, float], ReportRow] = {}
        self._origins: dict[int, ReportRow] = {}

    def __call__(self, metric: str, settings: Sequence[Setting], formula: str | None = None) -> Estimated:
        """Estimate a metric over all `settings`; with a formula, compare the metric of the methods with that of the
        baselines by it.

        NaN where it is undefined, such as beside a baseline that never succeeded.
        """
        if metric in COMPARISONS:
            metric, formula = COMPARISONS[metric]
        readings = [
            self._reading(metric, reading, formula)
            for reading in (settings, *self._with_imagined_seeds(metric, settings))
        ]
        seeds = min(self._seed_count(row, metric) for row in _rows(settings))
        value, error, freedom = (
            np.array(column, float) for column in zip(*[reading[:3] for reading in readings], strict=True)
        )
        tested = Estimate(value, error, freedom, seeds)
        interval = readings[0][3]
        if interval is None:
            low, high = equivalence.ends(tested)
            bounds = self._bounds(metric, settings, formula)
            exact_interval = self._exact(metric, settings, formula)
            if exact_interval is not None:
                low, high = exact_interval.low, exact_interval.high
            interval = Interval(value[0], np.clip(low, *bounds), np.clip(high, *bounds))
        if (compares(metric) or formula is not None) and not statistics.can_tell(seeds, seeds):
            nothing = Interval(interval.estimate, np.asarray(np.nan), np.asarray(np.nan))
            return Estimated(nothing, tested, statistics.cannot_tell(seeds))
        return Estimated(interval, tested)

    def _exact(self, metric: str, settings: Sequence[Setting], formula: str | None) -> Interval | None:
        """Return the interval of a comparison by the exact test (`comparisons.interval`); None for a metric of one
        side, or if seeds have no number of it."""
        kind = "gain" if formula is None and metric == "gain_percent" else formula
        baselines = [setting.baseline for setting in settings if setting.baseline is not None]
        if kind is None or len(baselines) < len(settings):
            return None
        measured = self._measured if metric in MEASURES else None
        return comparisons.interval(metric, [setting.row for setting in settings], baselines, kind, measured)

    def _bounds(self, metric: str, settings: Sequence[Setting], formula: str | None) -> tuple[float, float]:
        """Return the least and the greatest possible value of a metric or comparison, given the measured baseline."""
        if formula is None and metric != "gain_percent":
            return _range(metric)
        if formula is not None and metric in SUCCESS and formula not in ("gain", "saving"):
            return -SUCCESS[metric], SUCCESS[metric]
        rate = "best_success_rate" if metric == "gain_percent" else metric
        theirs = [Setting(setting.baseline) for setting in settings if setting.baseline is not None]
        if rate not in SUCCESS or not theirs:
            return -np.inf, np.inf
        beside = float(self.samples(rate, theirs)[0])
        most = 100 * (SUCCESS[rate] / beside - 1) if beside > 0 else np.inf
        return (-most, 100.0) if formula == "saving" else (-100.0, most)

    def samples(self, metric: str, settings: Sequence[Setting], formula: str | None = None) -> Array:
        """Return the metric of the parts averaged over the settings, [1 + reps]: the point estimate, then the value of
        each resample."""
        if formula is not None:
            theirs = [Setting(setting.baseline) for setting in settings if setting.baseline is not None]
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(FORMULAS[formula](self.samples(metric, settings), self.samples(metric, theirs)))
        if metric in MEASURES:
            return np.asarray(np.mean([self._means(setting.row, metric) for setting in settings], axis=0))
        ours = [self._parts(setting.row, setting.baseline) for setting in settings]
        baseline_parts = [self._parts(setting.baseline or setting.row, None) for setting in settings]
        return METRICS[metric].value(_mean(ours), _mean(baseline_parts))

    def lacks(self, row: ReportRow, metric: str) -> str:
        """Return what no run of a row recorded and a metric needs, as text; "" if nothing is missing."""
        name = measured_by(metric)
        if name not in MEASURES or not np.isnan(self._measured(row, name)).all():
            return ""
        return f"{name.replace('_', ' ')} of no run of {row.label} on {row.cell.task}"

    def _reading(
        self, metric: str, settings: Sequence[Setting], formula: str | None
    ) -> tuple[float, float, float, Interval | None]:
        """Return value, standard error and degrees of freedom of a metric, and its interval if that is not a t
        interval, else None."""
        samples = self.samples(metric, settings, formula)
        point, resampled = float(samples[0]), samples[1:]
        strata = {_stratum(row): (row, self._seed_count(row, metric)) for row in _rows(settings)}
        least = min(seeds for _, seeds in strata.values()) - 1
        nothing = Interval(np.asarray(point), np.asarray(np.nan), np.asarray(np.nan))
        if least < 1 or np.isnan(resampled).mean() > 1 - LEVEL:
            return point, np.nan, np.nan, nothing
        resampled = np.where(np.isnan(resampled), point, resampled)
        never = np.isinf(resampled).mean()
        if never > (1 - LEVEL) / 2 or np.isinf(point):
            tail = 100 * (1 - LEVEL) / 2
            ends = np.percentile(
                resampled, [tail, 100 - tail], method="inverted_cdf"
            )  # no arithmetic between infinities
            certain = np.isinf(point) and never >= (1 + LEVEL) / 2
            return point, 0.0 if certain else np.inf, least, Interval(np.asarray(point), *map(np.asarray, ends))
        finite = np.isfinite(resampled)
        deviations = np.where(finite, resampled - resampled[finite].mean(), 0.0)
        variance, shares, freedoms = float((deviations**2).mean()), [], []
        for row, seeds in strata.values():
            times = self._weights_of(row)[1:] * len(row.seeds)
            shares.append(float(((deviations @ (times - 1) / len(deviations)) ** 2).sum()) * seeds / (seeds - 1))
            freedoms.append(seeds - 1)
        linear = sum(share * freedom / (freedom + 1) for share, freedom in zip(shares, freedoms, strict=True))
        if variance <= (_TOLERANCE * max(abs(point), 1)) ** 2 or not linear:
            return point, 0.0, least, None
        freedom = sum(shares) ** 2 / sum(share**2 / degrees for share, degrees in zip(shares, freedoms, strict=True))
        return point, float(np.sqrt(variance * sum(shares) / linear)), freedom, None

    def _seed_count(self, row: ReportRow, metric: str) -> int:
        """Return how many seeds of a row have the metric."""
        return int(np.isfinite(self._measured(row, metric)).sum()) if metric in MEASURES else len(row.seeds)

    def _with_imagined_seeds(self, metric: str, settings: Sequence[Setting]) -> list[list[Setting]]:
        """Return the settings with one imagined seed more in each row at a bound: first in the methods' rows, then in
        the baselines'."""
        if metric not in METRICS:
            return []
        methods = [Setting(self._with_a_seed(setting.row, metric), setting.baseline) for setting in settings]
        baselines = [
            Setting(setting.row, setting.baseline and self._with_a_seed(setting.baseline, metric))
            for setting in settings
        ]
        return [
            changed
            for changed in (methods, baselines)
            if list(map(id, _rows(changed))) != list(map(id, _rows(settings)))
        ]

    def _with_a_seed(self, row: ReportRow, metric: str) -> ReportRow:
        """Return a row most of whose seeds are at a bound of the score with one imagined seed more, which is at the
        other bound throughout training; any other row unchanged."""
        scores = METRICS[metric].of_seeds(row.success)
        for bound in (0.0, 1.0):
            if equivalence.at_bound(scores, 1 - bound, 1.0):
                if (id(row), bound) not in self._imagined:
                    more = np.vstack([row.success, np.full((1, row.success.shape[1]), bound)])
                    extended = replace(row, success=more, seeds=(*row.seeds, _NO_SEED))
                    self._imagined[id(row), bound], self._origins[id(extended)] = extended, row
                return self._imagined[id(row), bound]
        return row

    def _means(self, row: ReportRow, metric: str) -> Array:
        """Return the mean of a measure over a row's runs that have one, [1 + reps]: the point estimate, then each
        resample; NaN after the first with a single run."""
        values, weights = self._measured(row, metric), self._weights_of(row)
        has_number = np.isfinite(values)
        with np.errstate(invalid="ignore"):
            means = weights @ np.where(has_number, values, 0) / (weights @ has_number)
        if has_number.sum() < 2:
            means[1:] = np.nan
        return np.asarray(means)

    def _parts(self, row: ReportRow, baseline: ReportRow | None) -> Parts:
        key = (id(row), id(baseline))
        if key not in self._parts_of:
            pieces = []
            size = max(1, _CHUNK // row.success.shape[1])
            weights = self._weights_of(row)
            target = None if baseline is None else self._parts(baseline, None).best
            for start in range(0, len(weights), size):
                chunk = slice(start, start + size)
                curves = weights[chunk] @ row.success
                best = curves.max(axis=1)
                aim = best if target is None else target[chunk]
                area = best  # of a curve of one point: its height
                if len(row.steps) > 1:
                    area = statistics.area_under_curve(curves[:, None], row.steps)[:, 0]
                ends = row.success[:, -1]
                variance = weights[chunk] @ ends**2 - curves[:, -1] ** 2
                deviation = np.sqrt(np.maximum(variance, 0.0) * len(ends) / max(1, len(ends) - 1))
                pieces.append((curves[:, -1], best, area, _reached(row.steps, curves, aim), deviation))
            last, best, area, steps, deviation = (np.concatenate(piece) for piece in zip(*pieces, strict=True))
            pace = self._measured(self._origins.get(id(row), row), WORKED)
            seconds = steps * (pace[np.isfinite(pace)].mean() if np.isfinite(pace).any() else np.nan)
            self._parts_of[key] = Parts(last, best, area, steps, seconds, deviation)
        return self._parts_of[key]

    def _weights_of(self, row: ReportRow) -> Array:
        """Return the weight of every seed of a row in the point estimate and in each resample, [1 + reps, seeds]; rows
        of one configuration have the same."""
        stratum = _stratum(row)
        if stratum not in self._weights:
            runs = len(row.seeds)
            generator = np.random.default_rng(statistics.name_seed(repr(stratum), 0))
            even = np.full((1, runs), 1 / runs)
            self._weights[stratum] = np.vstack([even, generator.multinomial(runs, even[0], size=self._reps) / runs])
        return self._weights[stratum]


def _range(metric: str) -> tuple[float, float]:
    """Return the least and the greatest possible value of a metric."""
    if metric in SUCCESS:
        return 0.0, SUCCESS[metric]
    if metric.endswith("saving_percent"):
        return -np.inf, 100.0
    if metric == "gain_percent":
        return -100.0, np.inf
    return (0.0 if metric.startswith(("steps_to_", "seconds_to_")) else -np.inf), np.inf


def _rows(settings: Sequence[Setting]) -> list[ReportRow]:
    return [row for setting in settings for row in setting if row is not None]


def _stratum(row: ReportRow) -> tuple[str, str, tuple[int, ...]]:
    """Return the key of a row's resampling: rows of one configuration share their draws of seeds."""
    return row.task_id, row.cell.id, row.seeds


def _reached(steps: Array, curves: Array, target: Array) -> Array:
    """Return the first of `steps` at which each of `curves` [n, checkpoints] reaches its target [n]; infinite if never,
    NaN for a target of zero."""
    hit = curves >= target[:, None] - _TOLERANCE
    first = np.where(hit.any(axis=1), np.asarray(steps, float)[hit.argmax(axis=1)], np.inf)
    return np.where(target > 0, first, np.nan)


def _mean(parts: Sequence[Parts]) -> Parts:
    return Parts(*(np.mean(values, axis=0) for values in zip(*parts, strict=True)))
