"""Matrices of cells around a reference: each cell's difference from it, corrected for their number, and the difference
that this number of seeds would detect in four studies of five."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.records.schema import INSTRUMENT_CHECK
from guidebench.reports import statistics
from guidebench.reports.summary import scoring

if TYPE_CHECKING:
    from guidebench.reports.statistics import Comparison
    from guidebench.reports.summary.rows import ReportRow

PAIRED = "seed by seed where both rows have the same seeds, else by Welch's t test"

ALONE = (
    "†: at an earlier step than the others, a planned seed has failed or is missing, or too few questions to its model "
    "were answered; compared with none."
)


class Line(NamedTuple):
    """A row compared with its reference; `comparison` is None for the reference, and if either row is excluded from
    comparisons (`ReportRow.alone`)."""

    name: str
    row: ReportRow
    comparison: Comparison | None


class Matrix(NamedTuple):
    """The lines of one task, the reference first, rows that belong to no matrix last."""

    kind: str
    heading: str
    lines: tuple[Line, ...]


def matrices(rows: Sequence[ReportRow]) -> list[Matrix]:
    """Return the matrices among `rows` whose reference has been evaluated."""
    found = []
    for reference in rows:
        place = reference.cell.matrix
        if place is None or place.reference != reference.cell.id:
            continue
        members = [row for row in rows if row.cell.matrix and row.cell.matrix.reference == reference.cell.id]
        beside = [row for row in rows if row.cell.matrix is None and row.place == reference.place]
        others = [row for row in [*members, *beside] if row is not reference]
        kinds = dict.fromkeys(row.cell.matrix.kind for row in members if row.cell.matrix)
        heading = f"{reference.where}: {' and '.join(f'{kind}s' for kind in kinds)} beside {reference.label}"
        found.append(Matrix(place.kind, heading, tuple(lines(reference, others))))
    return found


def lines(reference: ReportRow, others: Sequence[ReportRow]) -> list[Line]:
    """Return the reference, then the others; Holm corrects for every compared row. Names tell the steps, those of
    stages included, where they differ."""
    level = [row for row in others if not (row.alone or reference.alone)]
    compared = statistics.compare(
        reference.scores[:, -1:],
        {row.label: row.scores[:, -1:] for row in level},
        paired={row.label: row.seeds == reference.seeds for row in level},
    )
    rows = (reference, *others)
    uneven = len({row.place.steps for row in rows}) > 1
    return [
        Line(f"{_name(row)} ({row.place.steps:,} steps)" if uneven else _name(row), row, compared.get(row.label))
        for row in rows
    ]


def in_order(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """Return `rows` with each reference before the rows compared with it, otherwise in their order."""
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(_reference(row), index)
    return sorted(rows, key=lambda row: (first[_reference(row)], row.cell.id != _reference(row)))


def legend(found: Sequence[Matrix], pm: bool = False) -> str:
    """Explain the numbers of these matrices and their limits; empty without matrices.

    `pm`: differences have their standard errors rather than intervals.
    """
    if not found:
        return ""
    compared = [line.comparison for matrix in found for line in matrix.lines if line.comparison]
    paired = {each.paired for each in compared}
    how = "seed by seed" if paired == {True} else "Welch's t test" if paired == {False} else PAIRED
    values = sorted(each.detectable for each in compared if np.isfinite(each.detectable))
    interval = "in brackets the t test's interval at Holm's level for so many rows (95 % or more)"
    names = scoring.means(line.row.score for matrix in found for line in matrix.lines)
    parts = [
        f"Difference: final {names} minus that of the first row ({how}), {'± its standard error' if pm else interval}. "
        "p: two-sided t test, Holm-corrected over the rows"
        f"{'' if pm else '; below .05 exactly where the interval leaves out 0'}.",
        "Detectable difference: the true difference that one such test at 5 % would find in 80 % of studies with so "
        "many seeds, estimated from the standard deviation between the seeds of the row and of the first (of their "
        "differences, where paired); a dash where it cannot be estimated (a single seed, or seeds that do not differ).",
    ]
    if values:
        spread = f"{values[0]:.2f}" if values[0] == values[-1] else f"{values[0]:.2f} to {values[-1]:.2f}"
        parts.append(
            f"Here it is {spread}, itself a rough estimate from few seeds: smaller true differences would often be "
            "missed, and that none was found does not show that there is none."
        )
    if any(line.row.alone for matrix in found for line in matrix.lines):
        parts.append(ALONE)
    return " ".join([*parts, *(f"{remark}." for remark in remarks(found))])


def remarks(found: Sequence[Matrix]) -> list[str]:
    """State what must be said of the judges of these matrices."""
    cells = [line.row.cell for matrix in found for line in matrix.lines]
    perturbed = [cell for cell in cells if cell.matrix and cell.matrix.kind == "perturbation"]
    judges = dict.fromkeys(
        part.model
        for cell in perturbed
        for part in cell.parts.values()
        if (part.kind, part.backend) == ("judge", "scripted")
    )
    return [f"Judge {judge}: {INSTRUMENT_CHECK}" for judge in judges]


def _reference(row: ReportRow) -> str:
    return row.cell.matrix.reference if row.cell.matrix else row.cell.id


def _name(row: ReportRow) -> str:
    return row.cell.matrix.name if row.cell.matrix else row.label
