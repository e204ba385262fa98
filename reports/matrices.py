"""A matrix of cells around a reference: each one's difference from it, and the smallest one that could have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.records.schema import INSTRUMENT_CHECK
from reports import statistics
from reports.statistics import Interval

if TYPE_CHECKING:
    from reports.summary import Row

HEADERS = ("final success", "difference from\nthe first row", "detectable\ndifference", "seeds")


class Line(NamedTuple):
    """A row beside its reference; no difference for the reference itself and where they stand at different steps."""

    name: str
    row: Row
    difference: Interval | None
    detectable: float


class Matrix(NamedTuple):
    """The lines of one task and profile, the reference first, rows that belong to no matrix last."""

    kind: str
    heading: str
    lines: tuple[Line, ...]


def matrices(rows: Sequence[Row], reps: int, seed: int = 0) -> list[Matrix]:
    """The matrices among `rows`, of those whose reference has been evaluated."""
    found = []
    for reference in rows:
        role = reference.cell.role
        if role is None or role.reference != reference.cell.id:
            continue
        members = [row for row in rows if row.cell.role and row.cell.role.reference == reference.cell.id]
        beside = [row for row in rows if row.cell.role is None and _place(row) == _place(reference)]
        others = [row for row in [*members, *beside] if row is not reference]
        lines = [Line(role.name, reference, None, np.nan), *(_line(row, reference, reps, seed) for row in others)]
        kinds = dict.fromkeys(row.cell.role.kind for row in members if row.cell.role)
        heading = f"{reference.where}: {' and '.join(f'{kind}s' for kind in kinds)} beside {reference.label}"
        found.append(Matrix(role.kind, heading, tuple(lines)))
    return found


def in_order(rows: Sequence[Row]) -> list[Row]:
    """`rows` with each reference before what is compared with it, their order kept otherwise."""
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(_reference(row), index)
    return sorted(rows, key=lambda row: (first[_reference(row)], row.cell.id != _reference(row)))


def legend(found: Sequence[Matrix]) -> str:
    """What the numbers of these matrices are, and what they cannot show; empty without any."""
    if not found:
        return ""
    values = sorted(line.detectable for matrix in found for line in matrix.lines if np.isfinite(line.detectable))
    parts = [
        "Difference: final success minus that of the first row, in brackets the bootstrap 95 % interval (both rows "
        "resampled independently; not corrected for the number of rows).",
        "Detectable difference: the smallest that so many seeds could have shown, (t.975 + t.80) · s · sqrt(1/n + 1/m) "
        "for a two-sided test at 5 % with a power of 80 %, with s the standard deviation between seeds, pooled over "
        "the row and the first; a dash where it cannot be estimated (a single seed, or seeds that do not differ).",
    ]
    if values:
        spread = f"{values[0]:.2f}" if values[0] == values[-1] else f"{values[0]:.2f} (least) to {values[-1]:.2f}"
        parts.append(f"Smaller differences than {spread} could not have been shown here.")
    return " ".join([*parts, *(f"{remark}." for remark in remarks(found))])


def remarks(found: Sequence[Matrix]) -> list[str]:
    """What must be said of the judges of these matrices."""
    cells = [line.row.cell for matrix in found for line in matrix.lines]
    perturbed = [cell for cell in cells if cell.role and cell.role.kind == "perturbation"]
    judges = dict.fromkeys(cell.model for cell in perturbed if cell.backend == "scripted")
    return [f"Judge {judge}: {INSTRUMENT_CHECK}" for judge in judges]


def _reference(row: Row) -> str:
    return row.cell.role.reference if row.cell.role else row.cell.id


def _place(row: Row) -> tuple[str, str]:
    return row.where, row.cell.profile


def _line(row: Row, reference: Row, reps: int, seed: int) -> Line:
    name = row.cell.role.name if row.cell.role else row.label
    if row.behind or reference.behind:
        return Line(name, row, None, np.nan)
    ours, theirs = row.success[:, -1:], reference.success[:, -1:]
    return Line(
        name,
        row,
        statistics.difference(ours, theirs, "mean", reps, statistics.name_seed(row.label, seed)),
        statistics.detectable_difference(ours[:, 0], theirs[:, 0]),
    )
