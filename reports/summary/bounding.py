"""Bounds what tables and figures show of a study, whatever its number of cells; summary.json holds every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from guidebench import results
from guidebench.harness.grouping import grouped
from guidebench.reports.summary.comparability import Place
from guidebench.reports.summary.rows import MOST, ReportRow
from guidebench.reports.summary.summaries import Summary, with_notes
from guidebench.results import StudyRecord

NOTES = 200
"""Most notes that a page and a terminal show."""


def bounded(study: StudyRecord, summary: Summary) -> tuple[StudyRecord, Summary]:
    """Return a study and its summary with at most `MOST` rows of each place: the baseline, and those with the best
    final scores, in their order. Cells whose rows are left out are left out of the study too. Notes on what is left out
    come first."""
    places = grouped(summary.rows, lambda row: row.place)
    best_rows = {place: _best(rows) for place, rows in places.items() if len(rows) > MOST}
    if not best_rows:
        return study, replace(summary, notes=_few(summary.notes))
    left_out = {row.cell.id for place, chosen in best_rows.items() for row in places[place]} - _cells(best_rows)
    rows = tuple(row for row in summary.rows if row.cell.id not in left_out)
    matrices = tuple(
        matrix._replace(lines=tuple(line for line in matrix.lines if line.row.cell.id not in left_out))
        for matrix in summary.matrices
    )
    remarks = [_remark(places[place], chosen) for place, chosen in best_rows.items()]
    fewer = with_notes(replace(summary, rows=rows, matrices=matrices, notes=tuple(remarks)), summary.notes)
    bounded_study = results.select(study, lambda cell: cell.id not in left_out)
    return bounded_study, replace(fewer, notes=_few(fewer.notes))


def _best(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """Return `MOST` rows: the baseline, then those with the best final scores; rows that are excluded from comparisons
    come last."""
    order = sorted(rows, key=lambda row: (row.label != row.baseline, row.alone, -row.score.sign * row.final.estimate))
    return order[:MOST]


def _cells(rows_of: Mapping[Place, Iterable[ReportRow]]) -> set[str]:
    return {row.cell.id for rows in rows_of.values() for row in rows}


def _remark(rows: Sequence[ReportRow], chosen: Sequence[ReportRow]) -> str:
    baseline = chosen[0]
    return (
        f"{baseline.task_id}: tables and figures show {len(chosen)} of {len(rows):,} rows: {baseline.label}, with "
        f"which the others are compared, and those with the best final scores. The best of so many are so partly by "
        f"chance; run them again with other seeds before you report them. summary.json has every row"
    )


def _few(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the first `NOTES` notes, and one with the number of further ones."""
    if len(notes) <= NOTES:
        return tuple(notes)
    return (*notes[:NOTES], f"{len(notes) - NOTES:,} more notes are in summary.json")
