"""A paper's tables filled from our runs: every published number beside ours, with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.papers import equivalence, estimates, matching, verdicts
from guidebench.reports.papers.differences import Difference, difference
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
    ours: Interval | None
    verdict: str
    reasons: tuple[str, ...]
    """Reasons why it cannot be compared, what is missing, or why it is inconclusive."""
    numbers_alone: str
    """The verdict if ours were comparable; "" without an estimate of ours."""
    rows: tuple[ReportRow, ...]
    beside: tuple[str, float] | None = None
    """Another metric of ours that is shown beside it (`Paper.beside`), and its value."""
    difference: Difference | None = None
    """Our rows less their baselines in the final score."""
    interval_note: str = ""
    """What stands in the place of an interval that so few seeds do not have."""


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


def fill(paper: Paper, numbers: pd.DataFrame, shelf: Shelf, estimator: Estimator) -> list[Filled]:
    """Fill all tables of a paper; `numbers` is the frame that `guidebench.results.published.load(name)` returns."""
    tables = []
    for layout in paper.layouts:
        mine = [number(row) for row in numbers[numbers["table"] == layout.table].itertuples(index=False)]
        tasks = ",".join(
            dict.fromkeys(printed.task for printed in mine if "," not in printed.task and printed.task != ALL)
        )
        mine = [printed._replace(task=tasks) if printed.task == ALL and tasks else printed for printed in mine]
        tables.append(_table(layout, [entry(printed, paper, shelf, estimator) for printed in mine]))
    return tables


def number(row: object) -> Number:
    """Convert a record of `guidebench.results.published.load()` (from `itertuples`) to a Number."""
    values = {name: getattr(row, name) for name in Number._fields}
    seeds = None if str(values["seeds"]) == "<NA>" else int(values["seeds"])
    return Number(**{**values, "variant": published.variant(values["variant"]), "seeds": seeds})


def entry(number: Number, paper: Paper, shelf: Shelf, estimator: Estimator) -> PublishedEntry:
    """Estimate our value of a published number and return both with a verdict."""
    if number.suite in paper.robots:
        return PublishedEntry(number, None, verdicts.PUBLISHED_ONLY, ("real robots",), "", ())
    metric = matching.metric(number.metric, number.variant)
    if not estimates.is_known(metric):
        return PublishedEntry(number, None, verdicts.NOT_RUN, (f"{words(number.metric)} of no run",), "", ())
    match = shelf.match(number)
    if isinstance(match, Missing):
        return PublishedEntry(number, None, verdicts.NOT_RUN, (match.configuration,), "", ())
    rows = tuple({id(row): row for setting in match.settings for row in setting if row is not None}.values())
    lacking = [row for row in rows if estimator.lacks(row, metric)]
    if lacking:
        why = f"{words(estimates.measured_by(metric))} of no run of {lacking[0].label} on {lacking[0].cell.task}"
        return PublishedEntry(number, None, verdicts.NOT_RUN, (why,), "", ())
    ours = estimator(metric, match.settings)
    apart = difference([(row, other or shelf.baseline(row)) for row, other in match.settings])
    beside = _beside(paper.beside.get(metric, ""), match.settings, estimator)
    undefined = np.isnan(ours.tested.value[0])
    missing = "not defined here: a baseline that never succeeded" if undefined else ""
    reasons = tuple(filter(None, [*match.reasons, paper.unclear.get(metric, ""), missing]))
    theirs = equivalence.printed(number.value, number.error, number.error_kind, number.seeds or paper.seeds)
    theirs = theirs._replace(origin=equivalence.origin(metric, ""))
    episodes = estimates.episodes([setting.row for setting in match.settings])
    within = equivalence.margin(metric, "", number.value, episodes)
    alone = str(equivalence.decided(ours.tested, theirs, within, directed=estimates.compares(metric)))
    if not reasons and alone == verdicts.INCONCLUSIVE:
        reasons = equivalence.why_inconclusive(ours.tested, theirs, within)
        return PublishedEntry(number, ours.interval, alone, reasons, alone, rows, beside, apart, ours.interval_note)
    decided = verdicts.NOT_COMPARABLE if reasons else alone
    return PublishedEntry(
        number,
        ours.interval,
        decided,
        tuple(dict.fromkeys(reasons)),
        "" if undefined else alone,
        rows,
        beside,
        apart,
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
    plain = (tuple(property_of(entry.number, name) for name in layout.columns) for entry in entries)
    columns: list[Any] = list(layout.composed) or list(dict.fromkeys(plain))
    lines: dict[tuple[str, ...], dict[object, list[PublishedEntry]]] = {}
    for entry in entries:
        names = tuple(_line_name(name, property_of(entry.number, name)) for name in layout.lines)
        cells = lines.setdefault(names, {})
        if layout.composed:
            for column in layout.composed:
                if _place(entry.number) in column.numbers:
                    cells.setdefault(column, []).append(entry)
        else:
            cells.setdefault(tuple(property_of(entry.number, name) for name in layout.columns), []).append(entry)
    return Filled(
        layout,
        tuple(words(name.rpartition(".")[2]) for name in layout.lines),
        tuple(
            column.title if isinstance(column, JoinedColumn) else ", ".join(words(part) for part in column if part)
            for column in columns
        ),
        tuple(
            Line(names, tuple(tuple(_ordered(column, cells.get(column, []))) for column in columns))
            for names, cells in lines.items()
        ),
    )


def _line_name(name: str, value: str) -> str:
    """Return the text of a property that identifies a line: metrics and ablations with spaces, others as they are."""
    return words(value) if name in ("metric", "ablation") else value


def _place(number: Number) -> tuple[str, str]:
    return number.metric, "baseline" if number.method == number.variant.get("baseline") else "method"


def _ordered(column: object, entries: Sequence[PublishedEntry]) -> Sequence[PublishedEntry]:
    if not isinstance(column, JoinedColumn):
        return entries
    return sorted(entries, key=lambda entry: column.numbers.index(_place(entry.number)))
