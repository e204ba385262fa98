"""The data sources of the figures in a paper's report."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from guidebench import results
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.layouts import Named
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.sections import preferences, rewards
from guidebench.reports.sections.preferences import Teaching
from guidebench.reports.sections.rewards import Learned
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import StudyRecord


class Sources(NamedTuple):
    """The rows of the chosen studies, with access to the logs of their runs."""

    shelf: Shelf
    study_of: Callable[[ReportRow], StudyRecord]
    estimator: Estimator
    reps: int

    def row(self, suite: str, task: str, named: Named) -> ReportRow | None:
        """Return the table row of the method and variant that a figure names; None if no study has it."""
        _, method, variant = named
        return self.shelf.row(suite, task, method, "", variant)

    def teaching(self, row: ReportRow) -> Teaching | None:
        """Return the teacher's labels in a row's runs; None if none of them asked a teacher."""
        rows = results.noted(_alone(self.study_of(row), row), "labels")
        teachings = preferences.teaching([row.cell], rows, {row.cell.id: row.label}, self.reps)
        return teachings[0] if teachings else None

    def learned(self, row: ReportRow) -> Learned | None:
        """Return the reward that a row's runs learnt; None if none of them probed it."""
        rows = results.noted(_alone(self.study_of(row), row), "probes")
        learnt = rewards.learned([row.cell], rows, {row.cell.id: row.label}, self.reps)
        return learnt[0] if learnt else None


def _alone(study: StudyRecord, row: ReportRow) -> StudyRecord:
    """Return a study's record restricted to the cell of this row."""
    runs = tuple(run for run in study.runs if run.cell.id == row.cell.id)
    return StudyRecord(study.name, study.directory, study.command, (row.cell,), runs)
