"""The summary as tables for a terminal (rich), and how every table writes a number."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from reports import judges, statistics
from reports.aggregates import Aggregate
from reports.grids import Grid
from reports.judges import Judging
from reports.ledger import Spent
from reports.matrices import Line, Matrix
from reports.statistics import Array, Interval
from reports.summary import Row, Summary

if TYPE_CHECKING:
    from rich.table import Table

HEADER_CHARACTERS = 18
"""Of a column's name on one line, where it is a phrase."""
METRIC_NAMES = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap"}


def number(value: float | Array, digits: int = 2) -> str:
    """A fixed number of decimals; a dash where it is not defined, no sign before a rounded zero."""
    if not np.isfinite(value):
        return "—"
    return f"{round(float(value), digits) + 0.0:.{digits}f}"


def spread(interval: Interval, digits: int = 2) -> str:
    """`0.82 [0.71, 0.90]`, without brackets where there is no interval."""
    if not np.isfinite(interval.low):
        return number(interval.estimate, digits)
    return f"{number(interval.estimate, digits)} [{number(interval.low, digits)}, {number(interval.high, digits)}]"


def mark(row: Row) -> str:
    """After a final number: `*` for the best and what the test does not tell from it, † if compared with none."""
    return "*" if row.leading else "†" if row.alone else ""


def reached(row: Row) -> str:
    """Steps to the baseline's best: a step, `> budget` if not reached, a dash if the baseline never succeeded."""
    if row.target is None:
        return "—"
    return f"{row.reached:,}" if row.reached is not None else f"> {row.budget:,}"


def seeds(row: Row) -> str:
    """How many there are, in parentheses how many of them reach the baseline's best by themselves."""
    count = len(row.seeds)
    return f"{count}" if row.arrival is None else f"{count} ({round(float(row.arrival.share.estimate) * count)})"


def best(row: Row) -> str:
    """Maximum of the mean over seeds, in parentheses the mean of each seed's maximum."""
    return f"{number(row.best)} ({number(row.mean_of_best)})"


def final_return(row: Row) -> str:
    """The mean; with its interval where no episode succeeded, so that returns are all that tells rows apart."""
    if row.best > 0:
        return number(row.final_return.estimate)
    return spread(row.final_return, 0 if abs(row.final_return.estimate) >= 100 else 2)


def by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each task and profile, under what a heading calls them."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.where}, {row.cell.profile} profile", []).append(row)
    return groups


def aggregates_by_label(aggregates: Sequence[Aggregate]) -> dict[str, dict[str, list[Aggregate]]]:
    """Heading of a suite and profile -> label -> its metrics, in the order of `statistics.METRICS`."""
    groups: dict[str, dict[str, list[Aggregate]]] = {}
    for entry in aggregates:
        heading = f"{entry.suite}, {len(entry.tasks)} tasks, {entry.profile} profile"
        groups.setdefault(heading, {}).setdefault(entry.label, []).append(entry)
    return groups


def terminal(summary: Summary) -> list[Table]:
    """One table per task and profile, then one of aggregates per suite."""
    tables = []
    for heading, rows in by_task(summary.rows).items():
        name = rows[0].baseline if len(rows[0].baseline) <= 16 else "the baseline"
        baseline = textwrap.fill(f"steps to best of {name}", 16)
        headers = [
            "final success",
            "IQM",
            "AUC",
            "best (mean\nof maxima)",
            baseline,
            "final\nreturn",
            "seeds\n(reach)",
        ]
        cells = {
            row.label: [
                spread(row.final) + (mark(row)),
                spread(row.final_iqm),
                number(row.area.estimate),
                best(row),
                reached(row),
                final_return(row),
                seeds(row),
            ]
            for row in rows
        }
        tables.append(_table(heading, headers, cells))
    for heading, labels in aggregates_by_label(summary.aggregates).items():
        cells = {
            label: [
                spread(entry.interval) + ("*" if entry.leading else "†" if entry.missing else "") for entry in entries
            ]
            for label, entries in labels.items()
        }
        tables.append(_table(f"{heading}: final success", [METRIC_NAMES[name] for name in statistics.METRICS], cells))
    return [*tables, *map(matrix, summary.matrices)]


def matrix(found: Matrix) -> Table:
    """Differences from the first row."""
    headers = ["final success", "difference from\nthe first row", "p\n(Holm)", "detectable\ndifference", "seeds"]
    cells = {
        line.name: [spread(line.row.final) + "†" * line.row.alone, *compared(line), str(len(line.row.seeds))]
        for line in found.lines
    }
    return _table(found.heading, headers, cells)


def compared(line: Line) -> list[str]:
    """Difference with its corrected interval, corrected p value, detectable difference; dashes for the reference."""
    found = line.comparison
    if found is None:
        return ["—"] * 3
    return [spread(found.adjusted), p_value(found.adjusted_p), number(found.detectable)]


def p_value(value: float) -> str:
    """Three decimals, `< 0.001` below them, a dash where there is none."""
    return "< 0.001" if value < 0.001 else number(value, 3)


def grids(found: Sequence[Grid]) -> list[Table]:
    """Estimates with their intervals."""
    return [
        _table(
            each.heading,
            [textwrap.fill(name, HEADER_CHARACTERS) for name in each.names],
            {label: [spread(estimate) for estimate in line] for label, line in each.lines.items()},
        )
        for each in found
    ]


def judging(judgings: Sequence[Judging]) -> list[Table]:
    """One table of the judges whose tasks tell of events; none where there are none."""
    cells = {
        f"{entry.label} on {entry.where}": [str(entry.positive), *map(str, entry.agreement)]
        for entry in judgings
        if entry.agreement
    }
    headers = [
        "positive,\nof clips judged",
        "agreement",
        "hit rate, of\nclips with event",
        "false-alarm rate,\nof the others",
    ]
    return [_table(judges.BESIDE_EVENTS, headers, cells)] if cells else []


def ledger(entries: Sequence[Spent]) -> list[Table]:
    """One table of what foundation models were asked and cost; none where none was asked."""
    cells = {
        f"{entry.label} on {entry.where}": [
            f"{entry.calls:,}",
            f"{entry.failures:,}",
            f"{entry.tokens_in:,} / {entry.tokens_out:,}",
            f"{entry.images:,}",
            f"{entry.seconds:,.1f}",
            f"{entry.usd:,.4f}",
            f"{entry.billed_calls:,}",
            f"{entry.billed_usd:,.4f}",
        ]
        for entry in entries
    }
    headers = [
        "calls",
        "without\nanswer",
        "tokens\nin / out",
        "images",
        "model's\nseconds",
        "USD",
        "calls\nbilled",
        "USD\nbilled",
    ]
    return [_table("model calls and their cost", headers, cells)] if cells else []


def _table(heading: str, headers: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """A table whose numbers keep their line; where room is short the names in the first column are wrapped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(heading), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, collapse_padding=True
    )
    table.add_column("row", overflow="fold")
    for index, header in enumerate(headers):
        width = max(map(len, [*header.split("\n"), *(cells[index] for cells in rows.values())]))
        table.add_column(Text(header), justify="right", min_width=width)
    for label, cells in rows.items():
        table.add_row(Text(label), *(Text(cell, style="bold" if cell.endswith("*") else "") for cell in cells))
    return table
