"""Replications: a later study of a cell whose rows differ from the first, because it was made under other conditions.

A replication is compared with the row that it repeats, and with no other test's correction: it asks whether two studies
of one configuration agree, not which of two methods is better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import LEVEL, Interval
from guidebench.reports.summary import scoring
from guidebench.reports.summary.rows import ReportRow

OTHER_MARGIN = 0.2
"""Margin of a score other than success, as a share of it (choice)."""

LEGEND = (
    "Replication: the same configuration in another study, whose code, packages or machine differ. Difference: final "
    "score of the replication minus that of the original, with its 95 % interval. Agree within M: its 90 % interval "
    "lies within ± M (two one-sided tests at 5 %), where M is min(.2, p/2, (1 − p)/2) of a success rate p and at least "
    "one episode, and a fifth of any other score. Differ: the 95 % interval leaves out zero."
)


class Replication(NamedTuple):
    """A replication and the row that it repeats, with the verdict on their difference."""

    original: ReportRow
    row: ReportRow
    difference: Interval
    """Final score of the replication minus that of the original, with its 95 % interval; NaN if not compared."""
    margin: float
    verdict: str

    @property
    def digits(self) -> int:
        """Return the number of decimals that both scores are shown with."""
        return scoring.digits([self.original.final, self.row.final])


def replication(original: ReportRow, row: ReportRow, equal_steps: bool) -> Replication:
    """Compare a replication with the row that it repeats. `equal_steps`: whether both are at the same step; else they
    are not compared yet."""
    most = margin(original.score, float(original.final.estimate), int(row.counts[:, -1].sum()))
    if not equal_steps or original.lacks or row.lacks:
        gap = np.asarray(float(row.final.estimate) - float(original.final.estimate))
        return Replication(original, row, Interval(gap, *np.full(2, np.nan)), most, "not compared yet")
    difference, narrow = (
        statistics.interval(row.unsigned, original.unsigned, "mean", level, scoring.bounds(original.score))
        for level in (LEVEL, 2 * LEVEL - 1)
    )
    digits = scoring.digits([original.final, row.final])
    words = verdict(difference, narrow, most, digits)
    if np.isnan(difference.low):
        words = statistics.cannot_tell(min(len(original.seeds), len(row.seeds)))
    return Replication(original, row, difference, most, words)


def margin(score: Score, value: float, episodes: int) -> float:
    """Return the largest difference at which two studies still agree on a score of this value.

    `episodes`: number of episodes behind the replication's value. The margin of a success rate is
    `statistics.margin_of_rate`, that of another score a fifth of its absolute value.
    """
    if score.name == "success":
        return float(statistics.margin_of_rate(value, episodes))
    return OTHER_MARGIN * abs(value)


def verdict(wide: Interval, narrow: Interval, margin: float, digits: int = 2) -> str:
    """Return a text on whether two studies agree, given the 95 % and the 90 % interval of their difference.

    They differ if the 95 % interval leaves out zero, which is tested first, and agree if the 90 % interval lies within
    ± margin (two one-sided tests at 5 %). Otherwise the text is "cannot tell".
    """
    within = bool(-margin < narrow.low and narrow.high < margin)
    if wide.low > 0 or wide.high < 0:
        return f"differ, by less than {margin:.{digits}f}" if within else "differ"
    return f"agree within {margin:.{digits}f}" if within else "cannot tell"
