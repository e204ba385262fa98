"""Where the figures of a paper's report come from."""

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
    """The rows of the chosen studies, and what may be read of their runs."""

    shelf: Shelf
    study_of: Callable[[ReportRow], StudyRecord]
    estimator: Estimator
    reps: int

    def row(self, suite: str, task: str, named: Named) -> ReportRow | None:
        """The row that a figure names."""
        _, method, variant = named
        return self.shelf.row(suite, task, method, "", variant)

    def teaching(self, row: ReportRow) -> Teaching | None:
        """What the teacher of a row's runs said; None where none of them asked one."""
        rows = results.noted(_alone(self.study_of(row), row), "labels")
        found = preferences.teaching([row.cell], rows, {row.cell.id: row.label}, self.reps)
        return found[0] if found else None

    def learned(self, row: ReportRow) -> Learned | None:
        """The reward that a row's runs learnt; None where none of them has looked at it."""
        rows = results.noted(_alone(self.study_of(row), row), "probes")
        found = rewards.learned([row.cell], rows, {row.cell.id: row.label}, self.reps)
        return found[0] if found else None


def _alone(study: StudyRecord, row: ReportRow) -> StudyRecord:
    """A study as if it were of one row."""
    runs = tuple(run for run in study.runs if run.cell.id == row.cell.id)
    return StudyRecord(study.name, study.directory, study.command, (row.cell,), runs)
