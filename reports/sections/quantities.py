"""Numbers of runs, from their logs: estimates over the runs of each row, as tables and as JSON data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import tables
from guidebench.reports.summary import export
from guidebench.reports.summary.grids import Grid, over_runs
from guidebench.reports.summary.listings import Listing
from guidebench.reports.summary.records import CellLog, by_cell, by_task

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.sections import Source


class Quantities(NamedTuple):
    """Estimates of several quantities for a row on one task; intervals are over its runs."""

    label: str
    task_id: str
    log: CellLog
    """The records from which the quantities are computed."""
    runs: int
    numbers: Mapping[str, Interval]
    """Name -> the estimate; NaN if no run has it."""
    kind: str = ""
    """Kind of episodes, such as `training`; "" if the row has one kind."""
    details: Mapping[str, Any] = MappingProxyType({})
    """What a section computes beside the quantities, by name."""


def of_runs(
    source: Source, rows: pd.DataFrame, of_run: Callable[[pd.DataFrame], Mapping[str, float]], kind: str = ""
) -> list[Quantities]:
    """Return one row per cell that has records: the means over its runs of `of_run(records of the run)`."""
    estimates = []
    for log in by_cell(source.study.cells, rows, source.labels):
        runs = [of_run(run) for run in log.runs]
        numbers = {
            name: over_runs(np.array([run[name] for run in runs], float), source.resamples, log.label)
            for name in runs[0]
        }
        estimates.append(Quantities(log.label, log.task_id, log, len(runs), numbers, kind))
    return estimates


def last_evaluation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the records of each run's last evaluation."""
    return rows[rows["step"] == rows.groupby(["cell", "seed"])["step"].transform("max")] if len(rows) else rows


def grids(
    estimates: Sequence[Quantities], subject: str, note: str, counts: Callable[[Quantities], str] | None = None
) -> list[Grid]:
    """Return a table for each task of the quantities by row. `counts`: function from a row to how much it rests on,
    for the note."""
    task_grids = []
    for task, rows in by_task(estimates).items():
        remark = "; ".join(f"{row.label}: {counts(row)}" for row in rows) if counts else ""
        lines = {row.label: tuple(row.numbers.values()) for row in rows}
        names = tuple(rows[0].numbers)
        task_grids.append(Grid(f"{task}: {subject}", names, lines, f"{note} {remark}." if remark else note))
    return task_grids


def listing(estimates: Sequence[Quantities], heading: str, note: str) -> list[Listing]:
    """Return a table of these estimates for the page, with a column for the kind of episodes if rows have kinds."""
    if not estimates:
        return []
    kinds = any(row.kind for row in estimates)
    lines = [
        (row.label, row.task_id, *((row.kind,) * kinds), *map(tables.spread, row.numbers.values()))
        for row in sorted(estimates, key=lambda row: row.task_id)
    ]
    columns = ("task", *("episodes of",) * kinds, *estimates[0].numbers)
    return [Listing(heading, columns, lines, on="page", words=1 + kinds, note=note)]


def plain(row: Quantities, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the estimates of a row as JSON data, under these keys or those that their names give."""
    named = keys or [name.strip().replace(" ", "_") for name in row.numbers]
    return {
        "label": row.label,
        "task": row.task_id,
        "runs": row.runs,
        **({"episodes": row.kind} if row.kind else {}),
        **dict(zip(named, map(export.spread, row.numbers.values()), strict=True)),
    }


def leading(label: str, ranked: Sequence[tuple[str, ...]], most: int, omission: str) -> list[tuple[str, ...]]:
    """Return the first `most` of a row's ranked lines for a table, and one that says how many are left out.
    `omission`: what those are, such as "further goals"."""
    lines = [(label, *line) for line in ranked[:most]]
    if len(ranked) > most:
        lines.append((label, f"{len(ranked) - most} {omission}, left out", *("",) * (len(ranked[0]) - 1)))
    return lines
