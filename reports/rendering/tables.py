"""The summary as terminal tables (rich), and the number formats of all tables."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.grouping import grouped
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
    """Format a number with `digits` decimals; a dash if it is not finite, no sign before a rounded zero."""
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
    """The columns that a table of rows with one score has; those without information are omitted."""

    score: Score
    digits: int
    """Decimals of the score."""
    iqm: bool
    """Whether the IQM differs from the mean for any row, as it does with more than three seeds."""
    area: bool
    late: bool
    """Whether some row has three evaluations."""
    steps: bool
    success: bool
    """Whether to show success beside another score, because some episode succeeded."""
    returns: int | None
    """Decimals of the return; None if the return is the score."""


def columns(rows: Sequence[ReportRow]) -> Columns:
    """Return which columns the table of these rows has, which all have the same score."""
    score = rows[0].score
    return Columns(
        score,
        scoring.digits(row.final for row in rows),
        any(abs(float(row.final_iqm.estimate - row.final.estimate)) > TOLERANCE for row in rows),
        any(np.isfinite(row.area.estimate) for row in rows),
        any(np.isfinite(row.late.estimate) for row in rows),
        any(row.target is not None for row in rows),
        score.name != "success" and any(row.success.any() for row in rows),
        None if score.name == "return" else scoring.digits(row.final_return for row in rows),
    )


def by_task(rows: Sequence[ReportRow]) -> dict[str, list[ReportRow]]:
    """Return heading of a place -> its rows."""
    headings = comparability.headings(row.place for row in rows)
    return grouped(rows, lambda row: headings[row.place])


def aggregates_by_label(aggregates: Sequence[Aggregate]) -> dict[str, dict[str, list[Aggregate]]]:
    """Return heading of a comparison -> label -> its metrics, in the order of `statistics.METRICS`."""
    return {
        heading: grouped(members, lambda aggregate: aggregate.label)
        for heading, members in grouped(aggregates, lambda aggregate: aggregate.heading).items()
    }


def terminal(summary: Summary) -> list[Table]:
    """Return the terminal's tables of a summary: one of rows per place, one of aggregates per comparison, one per
    matrix."""
    tables = []
    for heading, rows in by_task(summary.rows).items():
        tables.append(_table(heading, *_results(rows)))
    for heading, labels in aggregates_by_label(summary.aggregates).items():
        digits = aggregate_digits(labels)
        cells = {
            label: [
                spread(aggregate.interval, digits) + ("*" if aggregate.leading else "†" if aggregate.missing else "")
                for aggregate in entries
            ]
            for label, entries in labels.items()
        }
        tables.append(
            _table(f"{heading}: final score", [METRIC_NAMES[name] for name in statistics.METRICS], cells.items())
        )
    return [*tables, *map(matrix, summary.matrices)]


def aggregate_digits(labels: Mapping[str, Sequence[Aggregate]]) -> int:
    """Return the number of decimals of a table of aggregates, which its intervals justify."""
    return scoring.digits(aggregate.interval for entries in labels.values() for aggregate in entries)


def _results(rows: Sequence[ReportRow]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the headings of the table of rows of one place, and each row's name and cells."""
    layout = columns(rows)
    digits, returns = layout.digits, layout.returns or 0
    name = rows[0].baseline if len(rows[0].baseline) <= 16 else "the baseline"
    heads = {
        f"final {scoring.title(layout.score)}": True,
        "IQM": layout.iqm,
        "AUC": layout.area,
        "late": layout.late,
        f"best (mean\nof {'maxima' if layout.score.sign > 0 else 'minima'})": True,
        textwrap.fill(f"steps to best of {name}", 16): layout.steps,
        "final\nsuccess": layout.success,
        "final\nreturn": layout.returns is not None,
        "seeds\n(reach)" if layout.steps else "seeds": True,
    }

    def cells(row: ReportRow) -> list[str]:
        return [
            spread(row.final, digits) + mark(row),
            spread(row.final_iqm, digits),
            number(row.area.estimate, digits),
            number(row.late.estimate, digits),
            best(row, digits),
            reached(row),
            number(row.final_success.estimate),
            number(row.final_return.estimate, returns),
            seeds(row),
        ]

    flags = list(heads.values())
    lines = [(row.label, [cell for cell, keep in zip(cells(row), flags, strict=True) if keep]) for row in rows]
    return [head for head, keep in heads.items() if keep], lines


def matrix(matrix: Matrix) -> Table:
    """Return the terminal's table of a matrix: each row's final score and its difference from the first row."""
    score, digits = matrix.lines[0].row.score, matrix_digits(matrix)
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
        for line in matrix.lines
    }
    return _table(matrix.heading, headers, cells.items())


def replications(pairs: Sequence[Replication]) -> list[Table]:
    """Return a table for each task whose rows are repeated by another study: both final scores, their difference with
    its 95 % interval, and whether they agree."""
    headers = ["final,\noriginal", "final,\nreplication", "difference\n[95 %]", "seeds", "verdict"]

    def line(pair: Replication) -> tuple[str, list[str]]:
        scores = [spread(row.final, pair.digits) + "†" * row.lacks for row in (pair.original, pair.row)]
        seeds = f"{len(pair.original.seeds)} and {len(pair.row.seeds)}"
        return pair.row.label, [*scores, spread(pair.difference, pair.digits), seeds, pair.verdict]

    by_task = grouped(pairs, lambda pair: pair.row.task_id)
    return [_table(f"{task}: replications", headers, [*map(line, members)]) for task, members in by_task.items()]


def matrix_digits(matrix: Matrix) -> int:
    """Return the number of decimals of a matrix's scores and differences."""
    return scoring.digits(line.row.final for line in matrix.lines)


def compared(line: Line, digits: int = 2) -> list[str]:
    """Return the cells of a line's comparison: difference with corrected interval, corrected p value, seeds needed;
    dashes for the reference."""
    comparison = line.comparison
    if comparison is None:
        return ["—"] * 3
    return [
        difference(comparison.adjusted, comparison.interval_note, digits),
        p_value(comparison.adjusted_p),
        needed(comparison.needed),
    ]


def needed(value: float) -> str:
    """Return a number of seeds; `> 100` above the most that are considered, a dash if undefined."""
    return f"> {power.MOST}" if np.isinf(value) else number(value, 0)


def difference(interval: Interval, interval_note: str, digits: int = 2) -> str:
    """Return `0.25 [0.10, 0.40]`, or `0.25 (3 seeds cannot tell)` where so few seeds give no interval."""
    return f"{number(interval.estimate, digits)} ({interval_note})" if interval_note else spread(interval, digits)


def p_value(value: float) -> str:
    """Format a p value with three decimals; `< 0.001` if it is smaller, a dash if undefined."""
    return "< 0.001" if value < 0.001 else number(value, 3)


WIDEST = 6
"""Most estimates of a row that a terminal shows as columns; of more, each is a line with a column per row."""


def grids(grids: Sequence[Grid]) -> list[Table]:
    """Return a terminal table for each grid of estimates with their intervals, without those for LaTeX alone."""
    return [_grid(grid) for grid in grids if grid.on == "all"]


def _grid(grid: Grid) -> Table:
    texts = {
        label: [spread(interval, grid.decimals(name)) for name, interval in zip(grid.names, line, strict=True)]
        for label, line in grid.lines.items()
    }
    headers, lines = list(grid.names), list(texts.items())
    if len(headers) > max(WIDEST, len(lines)):
        headers, lines = (
            list(texts),
            [(name, list(cells)) for name, cells in zip(grid.names, zip(*texts.values(), strict=True), strict=True)],
        )
    return _table(grid.heading, [textwrap.fill(name, HEADER_CHARACTERS) for name in headers], lines)


def listings(listings: Sequence[Listing]) -> list[Table]:
    """Return the terminal tables of listings, without those for the page alone."""
    return [
        _table(listing.heading, listing.names, [(name, cells) for name, *cells in listing.lines], listing.subject)
        for listing in listings
        if listing.on != "page"
    ]


def _table(
    heading: str, headers: Sequence[str], rows: Collection[tuple[str, Sequence[str]]], subject: str = "row"
) -> Table:
    """Return a table whose numbers do not wrap; the names in the first column wrap if there is little room."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(heading), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, collapse_padding=True
    )
    table.add_column(subject, overflow="fold")
    for index, header in enumerate(headers):
        width = max(map(len, [*header.split("\n"), *(cells[index] for _, cells in rows)]))
        table.add_column(Text(header), justify="right", min_width=width)
    for label, cells in rows:
        table.add_row(Text(label), *(Text(cell, style="bold" if cell.endswith("*") else "") for cell in cells))
    return table
