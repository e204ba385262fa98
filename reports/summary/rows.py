"""A row of a report: the runs of one cell under one label, their curves, final numbers and comparisons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guidebench.harness.interfaces import Score
from guidebench.harness.records import schema
from guidebench.harness.statistics import Array, Interval, Sample, Survival
from guidebench.reports.summary import scoring
from guidebench.reports.summary.comparability import Place
from guidebench.reports.summary.ledger import Answered
from guidebench.results import CellRecord

BASELINES = ("uer", "per")
MOST = 50
"""Most rows of one place that are tested in pairs, and that tables and figures show (choice: a reader compares no more,
and Holm's correction for the pairs of 50 rows divides 5 % by 1,225)."""
NONE = Interval(*(np.asarray(np.nan) for _ in Interval._fields))


@dataclass(frozen=True)
class ReportRow:
    """One label on one task, with the scores of its runs and their statistics. Arrays over checkpoints hold the steps
    at which every seed was evaluated."""

    label: str
    cell: CellRecord
    place: Place
    """The place within which it is compared (`comparability.places`)."""
    seeds: tuple[int, ...]
    directories: tuple[str, ...]
    """Source of the numbers: one run directory per seed, relative to the study."""
    episodes: tuple[int, int]
    """Fewest and most episodes in one evaluation of one seed."""
    steps: Array
    """Environment steps, those of pre-training stages included."""
    scores: Array
    """Mean score of the episodes of each evaluation (`CellRecord.score`), [seeds, checkpoints]."""
    success: Array
    """Success rate per evaluation, [seeds, checkpoints]."""
    returns: Array
    """Mean return per evaluation, [seeds, checkpoints]."""
    variances: Array
    """Variances of `scores` as means of episodes, [seeds, checkpoints]; NaN of a single episode."""
    counts: Array
    """Episodes of each evaluation, [seeds, checkpoints]."""
    complete: bool
    """Whether every planned seed reached the planned number of steps."""
    curve: Interval
    """Mean of `scores` over seeds at each checkpoint; the fields below are of `scores` too, except `final_success` and
    `final_return`."""
    return_curve: Interval
    final: Interval
    """Mean over seeds at the last checkpoint."""
    final_iqm: Interval
    final_success: Interval
    final_return: Interval
    best: float
    """Best over evaluations of the mean over seeds, first reached at `best_step`."""
    best_step: int
    mean_of_best: float
    """Mean over seeds of each seed's own best."""
    area: Interval
    """Mean over seeds of the area under the curve, divided by the steps it spans; NaN for a single evaluation."""
    late: Interval
    """Mean over seeds of the mean of the last three evaluations; NaN for fewer than three."""
    baseline: str = ""
    target: float | None = None
    """The baseline's `best`; None if that is the worst possible score, as when it never succeeded."""
    reached: int | None = None
    """First step at which the mean over seeds reaches `target`; None if it does not."""
    arrival: Survival | None = None
    """When each seed by itself first reaches `target`; seeds that never do are censored at their last evaluation."""
    leading: bool = False
    """Whether it is among the best of its place by `final` (`statistics.leading`)."""
    behind: bool = False
    """Whether it is at an earlier step than others of its task, so that its final numbers are compared with no
    others."""
    answered: Answered | None = None
    """Number of questions of its runs to foundation models; None if none were asked, or none were counted."""
    missing: tuple[int, ...] = ()
    """Planned seeds that have failed or have no evaluations. Without them its final numbers may be too good, so they
    are compared with no others either."""

    @property
    def score(self) -> Score:
        """Return the definition of the row's score."""
        return self.cell.score

    @property
    def oriented(self) -> Array:
        """Return `scores` [seeds, checkpoints] such that higher is better."""
        return self.score.sign * self.scores

    @property
    def sample(self) -> Sample:
        """Return the final scores, [seeds, 1], such that higher is better, with the variances of their episodes."""
        return scoring.sample(self.score, self.scores[:, -1:], self.variances[:, -1:], self.counts[:, -1:])

    @property
    def unsigned(self) -> Sample:
        """Return the final scores as in `sample`, but with their own sign even where lower is better."""
        return self.sample._replace(scores=self.scores[:, -1:])

    @property
    def last(self) -> int:
        return int(self.steps[-1])

    @property
    def alone(self) -> bool:
        """Return whether the final numbers are excluded from comparisons, which tables mark with †."""
        return self.behind or self.lacks

    @property
    def lacks(self) -> bool:
        """Return whether the row has missing seeds, or too few of its questions were answered."""
        return bool(self.missing) or not (self.answered is None or self.answered.enough)

    @property
    def budget(self) -> int:
        """Return the steps within which `target` could be reached: the planned ones, or those so far."""
        return self.cell.total if self.complete else self.last

    @property
    def task_id(self) -> str:
        """Return the name SUITE/TASK."""
        return self.cell.task_id


def _few(answered: Answered) -> str:
    """Return a text on too few answers: the remarks of asking parts, else in which roles less than nine in ten
    questions were answered."""
    if answered.remarks:
        return " and ".join(answered.remarks)
    roles = ", ".join(role for role, _ in answered.short) if len(answered.roles) > 1 else ""
    return f"less than {schema.ENOUGH_ANSWERED:.0%} of its questions{f' as {roles}' * bool(roles)} answered"


def lacking(row: ReportRow) -> str:
    """Return a text on what excludes a row from comparisons: failed or missing seeds, and too few or uncounted answers;
    "" if nothing does."""
    reasons = []
    if row.missing:
        numbers = ", ".join(map(str, row.missing))
        reasons.append(f"planned seed{'s' if len(row.missing) > 1 else ''} {numbers} failed or missing so far")
    if row.answered is not None and not row.answered.enough:
        reasons.append("a ledger that cannot be read" if row.answered.unread else _few(row.answered))
    return " and ".join(reasons)
