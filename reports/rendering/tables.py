"""The summary as terminal tables (rich), and the number formats of all tables."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.interfaces import Score
from guidebench.harness.statistics import Array, Interval, power
from guidebench.reports.summary import comparability, scoring
from guidebench.reports.summary.aggregates import TOLERANCE, Aggregate
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listing
from guidebench.reports.summary.matrices import Line, Matrix
from guidebench.reports.summary.replication import Replication
from guidebench.reports.summary.rows import ReportRow
from guidebench.reports.summary.summaries import Summary

if TYPE_CHECKING:
    from rich.table import Table

HEADER_CHARACTERS = 18
"""Most characters of a column's name on one line, if it is a phrase."""
METRIC_NAMES = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap"}


def number(value: float | Array, digits: int = 2) -> str:
    """Format with a fixed number of decimals; a dash if undefined, no sign before a rounded zero."""
    if not np.isfinite(value):
        return "—"
    return f"{round(float(value), digits) + 0.0:.{digits}f}"


def spread(interval: Interval, digits: int | None = None) -> str:
    """Return `0.82 [0.71, 0.90]`, without brackets if there is no interval; by default with its own decimals
    (`scoring.digits`)."""
    digits = scoring.digits([interval]) if digits is None else digits
    if not np.isfinite(interval.low):
        return number(interval.estimate, digits)
    return f"{number(interval.estimate, digits)} [{number(interval.low, digits)}, {number(interval.high, digits)}]"


def mark(row: ReportRow) -> str:
    """Return the mark after a final number: `*` for the best (`statistics.leading`), † if excluded from
    comparisons."""
    return "*" if row.leading else "†" if row.alone else ""


def reached(row: ReportRow) -> str:
    """Return the steps to the baseline's best: a step, `> budget` if not reached, a dash if the baseline never
    succeeded."""
    if row.target is None:
        return "—"
    return f"{row.reached:,}" if row.reached is not None else f"> {row.budget:,}"


def seeds(row: ReportRow) -> str:
    """Return the number of seeds and, in parentheses, how many of them individually reach the baseline's best."""
    count = len(row.seeds)
    return f"{count}" if row.arrival is None else f"{count} ({round(float(row.arrival.share.estimate) * count)})"


def best(row: ReportRow, digits: int = 2) -> str:
    """Return the best of the mean over seeds and, in parentheses, the mean of each seed's best."""
    return f"{number(row.best, digits)} ({number(row.mean_of_best, digits)})"


class Columns(NamedTuple):
    """Columns of a table of rows with one score; columns without information are omitted."""

    score: Score
    digits: int
    """Decimals of the score."""
    iqm: bool
    """Whether the IQM differs from the mean for any row, as it does with more than three seeds."""
    area: bool
    steps: bool
    success: bool
    """Whether to show success beside another score, because some episode succeeded."""
    returns: int | None
    """Decimals of the return; None if the return is the score."""


def columns(rows: Sequence[ReportRow]) -> Columns:
    """Return the columns of rows with one score."""
    score = rows[0].score
    return Columns(
        score,
        scoring.digits(row.final for row in rows),
        any(abs(float(row.final_iqm.estimate - row.final.estimate)) > TOLERANCE for row in rows),
        any(np.isfinite(row.area.estimate) for row in rows),
        any(row.target is not None for row in rows),
        score.name != "success" and any(row.success.any() for row in rows),
        None if score.name == "return" else scoring.digits(row.final_return for row in rows),
    )


def by_task(rows: Sequence[ReportRow]) -> dict[str, list[ReportRow]]:
    """Return the rows of each place, by the place's heading."""
    headings = comparability.headings(row.place for row in rows)
    groups: dict[str, list[ReportRow]] = {}
    for row in rows:
        groups.setdefault(headings[row.place], []).append(row)
    return groups


def aggregates_by_label(aggregates: Sequence[Aggregate]) -> dict[str, dict[str, list[Aggregate]]]:
    """Return heading of a comparison -> label -> its metrics, in the order of `statistics.METRICS`."""
    groups: dict[str, dict[str, list[Aggregate]]] = {}
    for entry in aggregates:
        groups.setdefault(entry.heading, {}).setdefault(entry.label, []).append(entry)
    return groups


def terminal(summary: Summary) -> list[Table]:
    """Return one table per task and profile, then one of aggregates per suite."""
    tables = []
    for heading, rows in by_task(summary.rows).items():
        tables.append(_table(heading, *_results(rows)))
    for heading, labels in aggregates_by_label(summary.aggregates).items():
        digits = aggregate_digits(labels)
        cells = {
            label: [
                spread(entry.interval, digits) + ("*" if entry.leading else "†" if entry.missing else "")
                for entry in entries
            ]
            for label, entries in labels.items()
        }
        tables.append(
            _table(f"{heading}: final score", [METRIC_NAMES[name] for name in statistics.METRICS], cells.items())
        )
    return [*tables, *map(matrix, summary.matrices)]


def aggregate_digits(labels: Mapping[str, Sequence[Aggregate]]) -> int:
    """Return the decimals of a table of aggregates."""
    return scoring.digits(entry.interval for entries in labels.values() for entry in entries)


def _results(rows: Sequence[ReportRow]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return headings and cells of the table of some rows of one place."""
    shown = columns(rows)
    digits, returns = shown.digits, shown.returns or 0
    name = rows[0].baseline if len(rows[0].baseline) <= 16 else "the baseline"
    heads = {
        f"final {scoring.title(shown.score)}": True,
        "IQM": shown.iqm,
        "AUC": shown.area,
        f"best (mean\nof {'maxima' if shown.score.sign > 0 else 'minima'})": True,
        textwrap.fill(f"steps to best of {name}", 16): shown.steps,
        "final\nsuccess": shown.success,
        "final\nreturn": shown.returns is not None,
        "seeds\n(reach)" if shown.steps else "seeds": True,
    }

    def cells(row: ReportRow) -> list[str]:
        return [
            spread(row.final, digits) + mark(row),
            spread(row.final_iqm, digits),
            number(row.area.estimate, digits),
            best(row, digits),
            reached(row),
            number(row.final_success.estimate),
            number(row.final_return.estimate, returns),
            seeds(row),
        ]

    wanted = list(heads.values())
    kept = [(row.label, [cell for cell, keep in zip(cells(row), wanted, strict=True) if keep]) for row in rows]
    return [head for head, keep in heads.items() if keep], kept


def matrix(found: Matrix) -> Table:
    """Return a table of differences from the first row."""
    score, digits = found.lines[0].row.score, matrix_digits(found)
    headers = [
        f"final {scoring.title(score)}",
        "difference from\nthe first row",
        "p\n(Holm)",
        "seeds\nneeded",
        "seeds",
    ]
    cells = {
        line.name: [
            spread(line.row.final, digits) + "†" * line.row.alone,
            *compared(line, digits),
            str(len(line.row.seeds)),
        ]
        for line in found.lines
    }
    return _table(found.heading, headers, cells.items())


def replications(found: Sequence[Replication]) -> list[Table]:
    """Return a table for each task whose rows are repeated by another study: both final scores, their difference with
    its 95 % interval, and whether they agree."""
    headers = ["final,\noriginal", "final,\nreplication", "difference\n[95 %]", "seeds", "verdict"]
    by_task: dict[str, list[tuple[str, list[str]]]] = {}
    for pair in found:
        scores = [spread(row.final, pair.digits) + "†" * row.lacks for row in (pair.original, pair.row)]
        seeds = f"{len(pair.original.seeds)} and {len(pair.row.seeds)}"
        cells = [*scores, spread(pair.difference, pair.digits), seeds, pair.verdict]
        by_task.setdefault(pair.row.where, []).append((pair.row.label, cells))
    return [_table(f"{task}: replications", headers, rows) for task, rows in by_task.items()]


def matrix_digits(found: Matrix) -> int:
    """Return the decimals of a matrix's scores and differences."""
    return scoring.digits(line.row.final for line in found.lines)


def compared(line: Line, digits: int = 2) -> list[str]:
    """Return difference with corrected interval, corrected p value, and seeds needed; dashes for the reference."""
    found = line.comparison
    if found is None:
        return ["—"] * 3
    return [difference(found.adjusted, found.interval_note, digits), p_value(found.adjusted_p), needed(found.needed)]


def needed(value: float) -> str:
    """Return a number of seeds; `> 100` above the most that are considered, a dash if undefined."""
    return f"> {power.MOST}" if np.isinf(value) else number(value, 0)


def difference(interval: Interval, told: str, digits: int = 2) -> str:
    """Return `0.25 [0.10, 0.40]`, or `0.25 (3 seeds cannot tell)` where so few seeds give no interval."""
    return f"{number(interval.estimate, digits)} ({told})" if told else spread(interval, digits)


def p_value(value: float) -> str:
    """Format with three decimals; `< 0.001` below them, a dash if undefined."""
    return "< 0.001" if value < 0.001 else number(value, 3)


WIDEST = 6
"""Most estimates of a row that a terminal shows as columns; of more, each is a line with a column per row."""


def grids(found: Sequence[Grid]) -> list[Table]:
    """Return a table of estimates with their intervals."""
    return [_grid(each) for each in found]


def _grid(each: Grid) -> Table:
    shown = {
        label: [spread(one, each.decimals(name)) for name, one in zip(each.names, line, strict=True)]
        for label, line in each.lines.items()
    }
    headers, lines = list(each.names), list(shown.items())
    if len(headers) > max(WIDEST, len(lines)):
        headers, lines = (
            list(shown),
            [(name, list(cells)) for name, cells in zip(each.names, zip(*shown.values(), strict=True), strict=True)],
        )
    return _table(each.heading, [textwrap.fill(name, HEADER_CHARACTERS) for name in headers], lines)


def listings(found: Sequence[Listing]) -> list[Table]:
    """Return the tables of texts that the terminal shows."""
    return [
        _table(each.heading, each.names, [(name, cells) for name, *cells in each.lines])
        for each in found
        if each.on != "page"
    ]


def _table(heading: str, headers: Sequence[str], rows: Collection[tuple[str, Sequence[str]]]) -> Table:
    """Return a table whose numbers do not wrap; the names in the first column wrap if there is little room."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(heading), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, collapse_padding=True
    )
    table.add_column("row", overflow="fold")
    for index, header in enumerate(headers):
        width = max(map(len, [*header.split("\n"), *(cells[index] for _, cells in rows)]))
        table.add_column(Text(header), justify="right", min_width=width)
    for label, cells in rows:
        table.add_row(Text(label), *(Text(cell, style="bold" if cell.endswith("*") else "") for cell in cells))
    return table
