"""Our differences from the baseline, which stand beside a verdict: interval, p value and seeds needed.

They are of the final score, by the one test of every report, and say what our runs show by themselves, whatever a paper
published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from guidebench.harness import statistics
from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Comparison
from guidebench.reports.summary import scoring
from guidebench.reports.summary.rows import ReportRow


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
