"""Comparisons of new runs with stored ones: each row's difference from a reference on the same task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.errors import UserError, count
from guidebench.harness.grouping import grouped
from guidebench.reports.summary import comparability, export, matrices, names, replication, summaries
from guidebench.reports.summary.comparability import UNMIXED, Mixing, place
from guidebench.reports.summary.matrices import Line, Matrix
from guidebench.reports.summary.replication import Replication
from guidebench.reports.summary.rows import ReportRow, lacking
from guidebench.reports.summary.summaries import Summary
from guidebench.results import CellRecord, Joined


class Compared(NamedTuple):
    """The result of a comparison: a summary with a matrix around each reference, the sources of its rows, and the
    replications."""

    summary: Summary
    joined: Joined
    replications: tuple[Replication, ...] = ()


def compare(
    joined: Joined,
    new: Iterable[str],
    stored: Iterable[str],
    *,
    every: bool = True,
    mixing: Mixing = UNMIXED,
    reps: int = statistics.REPS,
    seed: int = 0,
) -> Compared:
    """Compare rows of the studies `new` with those of the studies `stored`, with intervals from `reps` resamples of the
    seeds.

    Each stored row is a reference if `every`, else the baseline of each task, profile, protocol version and length.
    A replication is compared with the row that it repeats apart from the others. Raises UserError if nothing is left to
    compare.
    """
    notes: list[str] = []
    new = {id for name in new for id in joined.members.get(name, ())}
    stored = {id for name in stored for id in joined.members.get(name, ())}
    named = names.brief([cell for cell in joined.study.cells if cell.id in new | stored], notes)
    rows = summaries.evaluated(joined.study, joined.evaluations, notes, reps, named.labels, seed)
    references = [row for row in rows if row.cell.id in stored]
    if not every:
        references = _baselines(references, joined.baselines)
    tables = []
    obstacles: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for reference in references:
        recorded_id = joined.recorded(reference.cell.id)
        candidates = [
            row
            for row in rows
            if row.cell.id in new and row.task_id == reference.task_id and joined.recorded(row.cell.id) != recorded_id
        ]
        comparable = []
        for row in candidates:
            reason = comparability.obstacle(place(row.cell), place(reference.cell), mixing)
            if reason:
                ours, theirs = obstacles.setdefault((row.task_id, reason), ({}, {}))
                ours[row.label] = theirs[reference.label] = None
            else:
                comparable.append(row)
                notes.extend(_remarks(row, reference))
        if comparable:
            tables.append(_table(reference, comparable))
    for (task_id, reason), (ours, theirs) in obstacles.items():
        notes.append(f"{task_id}: {', '.join(ours)} not compared with {', '.join(theirs)}: {reason}")
    notes += _pooled(joined, new & stored)
    repeated = _replications(rows, joined, new | stored)
    if not tables and not repeated:
        raise UserError("there is nothing to compare" + "".join(f"\n- {note}" for note in dict.fromkeys(notes)))
    notes.extend(summaries.mixtures(joined.study))
    cell_ids = {line.row.cell.id for table in tables for line in table.lines}
    cell_ids |= {row.cell.id for pair in repeated for row in (pair.original, pair.row)}
    compared = [row for row in rows if row.cell.id in cell_ids]
    involved = {*new, *cell_ids}
    row_names = _names(compared, joined.origins)
    summary = Summary(
        study=" + ".join(_short(joined.origins).values()),
        reps=reps,
        rows=tuple(replace(row, label=row_names[row.cell.id]) for row in compared),
        aggregates=(),
        notes=tuple(dict.fromkeys([*summaries.smoke(compared), *notes])),
        complete=all(run.status == "finished" for run in joined.study.runs if run.cell.id in involved),
        matrices=tuple(
            table._replace(lines=tuple(line._replace(name=row_names[line.row.cell.id]) for line in table.lines))
            for table in tables
        ),
        shared=named.shared,
    )
    row_of = {row.cell.id: row for row in summary.rows}
    pairs = (pair._replace(original=row_of[pair.original.cell.id], row=row_of[pair.row.cell.id]) for pair in repeated)
    return Compared(summary, joined, tuple(pairs))


def _replications(rows: Sequence[ReportRow], joined: Joined, compared: Iterable[str]) -> list[Replication]:
    """Return the replications among the cells `compared`, each with the row that it repeats."""
    by_id = {row.cell.id: row for row in rows}
    return [
        replication.replication(by_id[original], by_id[id], _level(by_id[id], by_id[original]))
        for id, original in joined.replications.items()
        if id in by_id and original in by_id and {id, original} <= set(compared)
    ]


def _baselines(rows: Sequence[ReportRow], claimed: Sequence[str]) -> list[ReportRow]:
    """Return the baseline of each group of comparable rows (`summaries.baseline_of`)."""
    groups = grouped(rows, lambda row: place(row.cell)._replace(method=""))
    return [summaries.baseline_of(group, claimed) for group in groups.values()]


def _table(reference: ReportRow, rows: Sequence[ReportRow]) -> Matrix:
    level = [replace(row, behind=not _level(row, reference)) for row in rows]
    lines = matrices.lines(reference, level)
    return Matrix("comparison", f"{reference.task_id}: beside {reference.label}", tuple(lines))


def _names(rows: Sequence[ReportRow], origins: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return cell id -> its row's label, with its studies in parentheses if the rows of its task come from different
    ones."""
    short = _short(origins)
    studies = {row.cell.id: ", ".join(short[name] for name in origins[row.cell.id]) for row in rows}
    tasks: dict[str, set[str]] = {}
    for row in rows:
        tasks.setdefault(row.task_id, set()).add(studies[row.cell.id])
    return {
        row.cell.id: f"{row.label} ({studies[row.cell.id]})" if len(tasks[row.task_id]) > 1 else row.label
        for row in rows
    }


def _short(origins: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return name of a study -> the last part of its path, where that is unique, else the name."""
    names = list(dict.fromkeys(name for studies in origins.values() for name in studies))
    ends = [Path(name).name for name in names]
    return {name: end if end and ends.count(end) == 1 else name for name, end in zip(names, ends, strict=True)}


def _level(row: ReportRow, reference: ReportRow) -> bool:
    """Return whether two rows are both finished, or at the same step."""
    return (row.complete and reference.complete) or row.last == reference.last


def _remarks(row: ReportRow, reference: ReportRow) -> Iterable[str]:
    """Yield notes on how a row differs from its reference besides in what is compared: profile, steps, episodes,
    versions, missing seeds."""
    task_id, pair = row.task_id, f"{row.label} and {reference.label}"
    row_place, reference_place = place(row.cell), place(reference.cell)
    if row_place.profile != reference_place.profile:
        yield f"{task_id}: profiles {row_place.profile} and {reference_place.profile} stand side by side, as asked for"
    if row_place.steps != reference_place.steps:
        yield f"{task_id}: {pair} trained for {row_place.steps:,} and {reference_place.steps:,} steps"
    if not _level(row, reference):
        yield f"{task_id}: {pair} are not compared yet: they stand at steps {row.last:,} and {reference.last:,}"
    for side in (row, reference):
        if side.lacks:
            yield f"{task_id}: {pair} are not compared: {side.label} has {lacking(side)}"
    if row.episodes != reference.episodes:
        yield f"{task_id}: {pair} have {row.episodes[1]} and {reference.episodes[1]} episodes in an evaluation"
    for kind, name, versions in _versions(row.cell, reference.cell):
        subject = "protocol (suite)" if kind == "suite" else f"{kind} {name}"
        yield f"{task_id}: {subject} has version {versions[0]} in {row.label} and {versions[1]} in {reference.label}"
    for label, entry in ((row.label, row_place), (reference.label, reference_place)):
        if entry.version is None:
            yield f"{task_id}: {label} was made elsewhere; that its protocol is the same is not on record"


def _versions(first: CellRecord, second: CellRecord) -> Iterable[tuple[str, str, tuple[Any, Any]]]:
    """Yield (kind, name, both versions) for the parts that two cells share in different versions."""
    for kind in sorted(first.versions.keys() & second.versions.keys()):
        names = [_part_name(cell, kind) for cell in (first, second)]
        versions = first.versions[kind], second.versions[kind]
        if names[0] == names[1] and versions[0] != versions[1]:
            yield kind, names[0], versions


def _part_name(cell: CellRecord, role: str) -> str:
    """Return the name of a cell's suite, of its method, or of its part in a role; "" if it has none."""
    if role in ("suite", "method"):
        return cell.suite if role == "suite" else cell.method
    return cell.parts[role].name if role in cell.parts else ""


def _pooled(joined: Joined, both: set[str]) -> Iterable[str]:
    """Yield notes on the cells that several studies have: their runs are pooled. `both`: cells that stand on both
    sides."""
    for cell in joined.study.cells:
        if len(joined.origins[cell.id]) > 1:
            why = ", so they stand on both sides" if cell.id in both else ""
            again = "".join(
                f"; {count(len(seeds), 'seed')} reproduced on {machines} machines"
                for machines, seeds in _by_machines(joined.machines[cell.id]).items()
            )
            yield (
                f"{cell.task_id}, {cell.label}: one configuration in "
                f"{' and '.join(joined.origins[cell.id])}; its runs are pooled, each counted once{why}{again}"
            )


def _by_machines(machines: Mapping[int, int]) -> dict[int, list[int]]:
    """Return number of machines -> the seeds with equal evaluations on that many. `machines`: seed -> number of
    machines."""
    seeds_of: dict[int, list[int]] = {}
    for seed, number in machines.items():
        seeds_of.setdefault(number, []).append(seed)
    return seeds_of


def plain(comparison: Compared) -> dict[str, Any]:
    """Return the comparison as JSON data, with null for undefined values."""

    def number(value: Any) -> float | None:
        return float(value) if np.isfinite(value) else None

    def spread(interval: statistics.Interval) -> dict[str, float | None]:
        return {name: number(value) for name, value in interval._asdict().items()}

    def row(report_row: ReportRow) -> dict[str, Any]:
        return {
            "label": report_row.label,
            "studies": list(comparison.joined.origins[report_row.cell.id]),
            "cell": comparison.joined.recorded(report_row.cell.id),
            "replication": report_row.cell.id in comparison.joined.replications,
            "profile": report_row.cell.profile,
            "protocol_version": place(report_row.cell).version,
            "seeds": list(report_row.seeds),
            "runs": list(report_row.directories),
            "last_step": report_row.last,
            "steps": report_row.cell.total,
            "complete": report_row.complete,
            "score": asdict(report_row.score),
            "final": spread(report_row.final),
        }

    def beside(line: Line) -> dict[str, Any]:
        test = line.comparison
        if test is None:
            return {"difference": None}
        return {
            "difference": spread(test.difference),
            "holm_interval": spread(test.adjusted),
            "p": number(test.p),
            "holm_p": number(test.adjusted_p),
            "seeds_needed": export.needed(test.needed),
        }

    return {
        "complete": comparison.summary.complete,
        "resamples": comparison.summary.reps,
        "level": statistics.LEVEL,
        "shared": list(comparison.summary.shared),
        "notes": list(comparison.summary.notes),
        "replications": [
            {
                "suite": pair.row.cell.suite,
                "task": pair.row.cell.task,
                "original": row(pair.original),
                "row": row(pair.row),
                "difference": spread(pair.difference),
                "margin": number(pair.margin),
                "verdict": pair.verdict,
            }
            for pair in comparison.replications
        ],
        "tables": [
            {
                "heading": table.heading,
                "suite": table.lines[0].row.cell.suite,
                "task": table.lines[0].row.cell.task,
                "reference": row(table.lines[0].row),
                "rows": [{**row(line.row), **beside(line)} for line in table.lines[1:]],
            }
            for table in comparison.summary.matrices
        ],
    }
