"""Our comparisons of rows by the one exact test of every report: differences from the baseline, and intervals of gains
and differences of metrics of which every seed has a number of its own.

The interval of a difference holds the shifts, that of a gain the factors, that the test does not reject
(`harness.statistics`). What only a mean curve has, such as steps until it reaches a target, has no number per seed;
such metrics keep the interval of their resamples (`estimates`). Differences of the final score stand beside a verdict
and say what our runs show by themselves, whatever a paper published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.statistics import Array, Comparison, Interval, Sample
from guidebench.reports.summary import scoring
from guidebench.reports.summary.rows import ReportRow

Measured = Callable[[ReportRow, str], Array]
"""Function from a row and a metric of its logs to a number per seed."""


class Difference(NamedTuple):
    """The final score of rows minus that of their baselines, one row and one baseline for each task."""

    baseline: str
    score: Score
    comparison: Comparison


def baseline_of(row: ReportRow, rows: Iterable[ReportRow]) -> ReportRow | None:
    """Return the baseline among `rows` with which a report compares the row; None for the baseline itself."""
    if row.label == row.baseline:
        return None
    return next((other for other in rows if other.place == row.place and other.label == row.baseline), None)


def difference(pairs: Sequence[tuple[ReportRow, ReportRow | None]]) -> Difference | None:
    """Return the difference of rows from their baselines, in the mean over tasks and learners.

    None if a row has no baseline or is excluded from comparisons, if scores differ, or if numbers of seeds differ
    within a side.
    """
    rows = [row for pair in pairs for row in pair if row is not None]
    if len(rows) < 2 * len(pairs) or any(row.alone for row in rows) or len({row.score for row in rows}) > 1:
        return None
    sides = [[pair[0] for pair in pairs], [pair[1] for pair in pairs if pair[1] is not None]]
    if not sides[0] or any(len({len(row.seeds) for row in side}) > 1 for side in sides):
        return None
    ours, theirs = (statistics.joined([row.unsigned for row in side]) for side in sides)
    score = sides[0][0].score
    (comparison,) = statistics.compare(theirs, {"": ours}, bounds=scoring.bounds(score)).values()
    return Difference(", ".join(dict.fromkeys(row.label for row in sides[1])), score, comparison)


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
