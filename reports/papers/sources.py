"""The data sources of the figures in a paper's report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from guidebench import results
from guidebench.reports.papers.estimates import Estimator
from guidebench.reports.papers.layouts import Figure
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import StudyRecord
from guidebench.results.rows import EVALUATIONS

if TYPE_CHECKING:
    import pandas as pd


class Sources(NamedTuple):
    """The rows of the chosen studies, with access to the logs of their runs."""

    shelf: Shelf
    study_of: Callable[[ReportRow], StudyRecord]
    estimator: Estimator
    reps: int

    def rows(self, figure: Figure, task: str) -> dict[str, ReportRow]:
        """Return name in the figure -> row, for those of its methods and variants that have a row on the task."""
        rows = {name: self.shelf.row(figure.suite, task, method, "", variant) for name, method, variant in figure.rows}
        return {name: row for name, row in rows.items() if row is not None}

    def records(self, row: ReportRow, log: str) -> pd.DataFrame:
        """Return the records of a row's runs in a log, or their evaluation episodes."""
        study = results.select(self.study_of(row), lambda cell: cell.id == row.cell.id)
        return results.load(study) if log == EVALUATIONS else results.noted(study, log)
