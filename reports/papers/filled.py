"""A paper's tables filled from our runs: every published number beside ours, with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.grouping import grouped
from guidebench.harness.statistics import Interval
from guidebench.reports.papers import equivalence, estimates, matching, verdicts
from guidebench.reports.papers.comparisons import Difference, difference
from guidebench.reports.papers.estimates import Estimator, Setting
from guidebench.reports.papers.layouts import JoinedColumn, Layout, Paper
from guidebench.reports.papers.matching import ALL, Missing, Number, Shelf
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import published

if TYPE_CHECKING:
    import pandas as pd


class PublishedEntry(NamedTuple):
    """A published number, and ours where a run has it."""

    number: Number
    verdict: str
    reasons: tuple[str, ...]
    """Reasons why it cannot be compared, what is missing, or why it is inconclusive."""
    ours: Interval | None = None
    numbers_alone: str = ""
    """The verdict if ours were comparable; "" without an estimate of ours."""
    rows: tuple[ReportRow, ...] = ()
    beside: tuple[str, float] | None = None
    """Another metric of ours that is shown beside it (`Paper.beside`), and its value."""
    difference: Difference | None = None
    """Our rows less their baselines in the final score."""
    interval_note: str = ""
    """Text instead of the interval, where there are too few seeds for one; else ""."""


class Line(NamedTuple):
    """A line of a table. A cell holds the entries of its column; the first entry has the column's verdict."""

    names: tuple[str, ...]
    cells: tuple[tuple[PublishedEntry, ...], ...]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Return the verdicts of all cells that have entries."""
        return tuple(cell[0].verdict for cell in self.cells if cell)


class Filled(NamedTuple):
    """One table of a paper; `names` are the headings of the columns that identify a line."""

    layout: Layout
    names: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def entries(self) -> list[PublishedEntry]:
        """Return all numbers of the table."""
        return [entry for line in self.lines for cell in line.cells for entry in cell]

    @property
    def leading(self) -> list[PublishedEntry]:
        """Return the first number of each cell, which has its verdict."""
        return [cell[0] for line in self.lines for cell in line.cells if cell]

    @property
    def is_filled(self) -> bool:
        """Return whether a run of ours has the first number of a cell."""
        return any(entry.ours is not None for entry in self.leading)


def fill(paper: Paper, numbers: pd.DataFrame, shelf: Shelf, estimator: Estimator) -> list[Filled]:
    """Fill all tables of a paper; `numbers` is the frame that `guidebench.results.published.load(name)` returns."""
    tables = []
    for layout in paper.layouts:
        table_numbers = [number(row) for row in numbers[numbers["table"] == layout.table].itertuples(index=False)]
        tasks = ",".join(
            dict.fromkeys(printed.task for printed in table_numbers if "," not in printed.task and printed.task != ALL)
        )
        table_numbers = [
            printed._replace(task=tasks) if printed.task == ALL and tasks else printed for printed in table_numbers
        ]
        tables.append(_table(layout, [entry(printed, paper, shelf, estimator) for printed in table_numbers]))
    return tables


def number(row: object) -> Number:
    """Convert a record of `guidebench.results.published.load()` (from `itertuples`) to a Number."""
    values = {name: getattr(row, name) for name in Number._fields}
    seeds = None if str(values["seeds"]) == "<NA>" else int(values["seeds"])
    return Number(**{**values, "variant": published.variant(values["variant"]), "seeds": seeds})


def entry(number: Number, paper: Paper, shelf: Shelf, estimator: Estimator) -> PublishedEntry:
    """Estimate our value of a published number and return both with a verdict."""
    if number.suite in paper.robots:
        return PublishedEntry(number, verdicts.PUBLISHED_ONLY, ("real robots",))
    metric = matching.metric(number.metric, number.variant)
    if not estimates.is_known(metric):
        return PublishedEntry(number, verdicts.NOT_RUN, (f"{words(number.metric)} of no run",))
    match = shelf.match(number)
    if isinstance(match, Missing):
        return PublishedEntry(number, verdicts.NOT_RUN, (match.configuration,))
    rows = tuple({id(row): row for setting in match.settings for row in setting if row is not None}.values())
    if lacking := next(filter(None, (estimator.lacks(row, metric) for row in rows)), ""):
        return PublishedEntry(number, verdicts.NOT_RUN, (lacking,))
    ours = estimator(metric, match.settings)
    undefined = np.isnan(ours.tested.value[0])
    reasons = tuple(
        filter(None, [*match.reasons, paper.unclear.get(metric, ""), verdicts.UNDEFINED if undefined else ""])
    )
    theirs = equivalence.printed(number.value, number.error, number.error_kind, number.seeds or paper.seeds)
    episodes = estimates.episodes([setting.row for setting in match.settings])
    verdict, why = equivalence.verdict(ours.tested, theirs, metric, "", episodes, estimates.compares(metric))
    return PublishedEntry(
        number,
        verdicts.NOT_COMPARABLE if reasons else verdict,
        tuple(dict.fromkeys(reasons)) or why,
        ours.interval,
        "" if undefined else verdict,
        rows,
        _beside(paper.beside.get(metric, ""), match.settings, estimator),
        difference([(row, other or shelf.baseline(row)) for row, other in match.settings]),
        ours.interval_note,
    )


def _beside(metric: str, settings: Sequence[Setting], estimator: Estimator) -> tuple[str, float] | None:
    """Return a metric and its value over the settings; None if `metric` is empty or some run did not record it."""
    if not metric or any(estimator.lacks(setting.row, metric) for setting in settings):
        return None
    return metric, float(estimator(metric, settings).interval.estimate)


def property_of(number: Number, name: str) -> str:
    """Return the suite, task, method or metric of a number, or the value of its variant under that key; "" if it has
    none."""
    if name in ("suite", "task", "method", "metric"):
        return str(getattr(number, name))
    return number.variant.get(name, "")


def words(name: str) -> str:
    """Return a name from the data with spaces instead of underscores."""
    return name.replace("_", " ")


def _table(layout: Layout, entries: Sequence[PublishedEntry]) -> Filled:
    def column_of(entry: PublishedEntry) -> tuple[str, ...]:
        return tuple(property_of(entry.number, name) for name in layout.columns)

    def line_of(entry: PublishedEntry) -> tuple[str, ...]:
        """Return the texts that identify a line: metrics and ablations with spaces, other properties as they are."""
        texts = ((name, property_of(entry.number, name)) for name in layout.lines)
        return tuple(words(text) if name in ("metric", "ablation") else text for name, text in texts)

    def cell(column: Any, members: Sequence[PublishedEntry]) -> tuple[PublishedEntry, ...]:
        if not isinstance(column, JoinedColumn):
            return tuple(entry for entry in members if column_of(entry) == column)
        joined = [entry for entry in members if _place(entry.number) in column.numbers]
        return tuple(sorted(joined, key=lambda entry: column.numbers.index(_place(entry.number))))

    columns: Sequence[Any] = layout.composed or [*dict.fromkeys(map(column_of, entries))]
    return Filled(
        layout,
        tuple(words(name.rpartition(".")[2]) for name in layout.lines),
        tuple(
            column.title if isinstance(column, JoinedColumn) else ", ".join(words(part) for part in column if part)
            for column in columns
        ),
        tuple(
            Line(names, tuple(cell(column, members) for column in columns))
            for names, members in grouped(entries, line_of).items()
        ),
    )


def _place(number: Number) -> tuple[str, str]:
    return number.metric, "baseline" if number.method == number.variant.get("baseline") else "method"
