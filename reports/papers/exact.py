"""Intervals of gains and differences by the one exact test, for metrics of which every seed has a number of its own.

The interval of a difference holds the shifts, that of a gain the factors, that the test of every report does not
reject (`harness.statistics`). What only a mean curve has, such as steps until it reaches a target, has no number per
seed; such metrics keep the interval of their resamples (`estimates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.interfaces import SUCCESS
from guidebench.harness.statistics import Array, Interval, Sample
from guidebench.reports.summary.rows import ReportRow

Measured = Callable[[ReportRow, str], Array]
"""Function from a row and a metric of its logs to a number per seed."""


def difference(ours: Array, theirs: Array) -> Array:
    """Return ours less theirs."""
    return np.asarray(ours - theirs)


def shortfall(ours: Array, theirs: Array) -> Array:
    """Return theirs less ours, for metrics of which lower is better."""
    return np.asarray(theirs - ours)


def interval(
    metric: str, rows: Sequence[ReportRow], baselines: Sequence[ReportRow], kind: str, measured: Measured | None
) -> Interval | None:
    """Return how rows compare with as many baselines in the mean over settings, by a `kind` of `KINDS`, with the
    interval of the exact test. None if seeds have no number of this metric, rows have different numbers of seeds, or a
    gain is of numbers below 0. `measured`: function that gives the numbers, for a metric of logs."""
    ours, theirs = (_joined([_sample(row, metric, measured) for row in side]) for side in (rows, baselines))
    if ours is None or theirs is None or ours.shape[1] != theirs.shape[1]:
        return None
    scale = 100.0 if metric in PERCENT else 1.0
    if kind in ("difference", "shortfall"):
        first, second = (ours, theirs) if kind == "difference" else (theirs, ours)
        return Interval(*(np.asarray(scale * part) for part in statistics.interval(first, second)))
    if min(ours.scores.min(), theirs.scores.min()) < 0:
        return None
    ratio = statistics.ratio(ours, theirs)
    if kind == "saving":
        return Interval(*(np.asarray(100 * (1 - part)) for part in (ratio.estimate, ratio.high, ratio.low)))
    off = 1.0 if kind == "gain" else 0.0
    return Interval(*(np.asarray(100 * (part - off)) for part in ratio))


KINDS = ("difference", "shortfall", "gain", "saving", "share")
"""What two sides are compared by: ours less theirs, theirs less ours, and in percent of theirs the gain, the saving and
ours itself."""
PERCENT = ("success_percent", "test_score")
"""Metrics that are success rates in percent."""
_LAST = ("success_rate", *PERCENT)
_BEST = ("best_success_rate", "gain_percent")


def _sample(row: ReportRow, metric: str, measured: Measured | None) -> Sample | None:
    """Return the numbers of a row's seeds, [seeds, 1], success rates between 0 and 1; None if they have none."""
    if measured is not None:
        values = measured(row, metric)
        finite = values[np.isfinite(values)]
        return Sample(finite[:, None]) if len(finite) else None
    if metric == "area_under_curve":
        if len(row.steps) < 2:
            return Sample(row.success[:, -1:])
        return Sample(statistics.area_under_curve(row.success[:, None], row.steps)[:, :1])
    if metric not in (*_LAST, *_BEST):
        return None
    place = row.success.shape[1] - 1 if metric in _LAST else int(row.success.mean(axis=0).argmax())
    at = slice(place, place + 1)
    if row.score.name != SUCCESS.name or row.variances.shape != row.success.shape:
        return Sample(row.success[:, at])
    return Sample(row.success[:, at], row.variances[:, at], row.counts[:, at])


def _joined(samples: Sequence[Sample | None]) -> Sample | None:
    present = [sample for sample in samples if sample is not None]
    if not present or len(present) < len(samples) or len({len(sample.scores) for sample in present}) > 1:
        return None
    return statistics.joined(present)
