"""Rows around a reference, the full method of a matrix or the baseline of a task: each one's difference from it,
corrected for their number, and the seeds that such a difference needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness import statistics
from guidebench.harness.grouping import grouped
from guidebench.harness.records.schema import INSTRUMENT_CHECK
from guidebench.harness.statistics import power
from guidebench.reports.summary import comparability, scoring

if TYPE_CHECKING:
    from guidebench.harness.statistics import Comparison
    from guidebench.reports.summary.rows import ReportRow

TEST = "two-sided permutation test of the runs, seeds not paired, and never below a test with episodes as units"
"""The one test (`statistics.p_value`), in words."""
NEEDED = (
    f"Seeds needed: the fewest a side, up to {power.MOST}, with which the test at 5 % finds a difference in "
    f"{100 * power.POWER:.0f} % of {power.STUDIES:,} studies resampled from the seeds of both rows. It rests on this "
    "study alone, whose few seeds may show another difference, and another spread, than there is."
)
ALONE = (
    "†: at an earlier step than the others, a planned seed has failed or is missing, or too few questions to its model "
    "were answered; compared with none."
)


class Line(NamedTuple):
    """A row with its comparison to the reference, which is None for the reference, and if either row is excluded from
    comparisons (`ReportRow.alone`)."""

    name: str
    row: ReportRow
    comparison: Comparison | None


class Matrix(NamedTuple):
    """The rows of one task beside a reference, which is first; rows that belong to no matrix are last."""

    kind: str
    """"ablation" or "perturbation", "comparison" beside a stored row, or "baseline"."""
    heading: str
    lines: tuple[Line, ...]


def matrices(rows: Sequence[ReportRow]) -> list[Matrix]:
    """Return the ablation and perturbation matrices among `rows` whose reference has been evaluated."""
    matrices = []
    for reference in rows:
        place = reference.cell.matrix
        if place is None or place.reference != reference.cell.id:
            continue
        members = [row for row in rows if row.cell.matrix and row.cell.matrix.reference == reference.cell.id]
        beside = [row for row in rows if row.cell.matrix is None and row.place == reference.place]
        others = [row for row in [*members, *beside] if row is not reference]
        kinds = dict.fromkeys(row.cell.matrix.kind for row in members if row.cell.matrix)
        heading = f"{reference.task_id}: {' and '.join(f'{kind}s' for kind in kinds)} beside {reference.label}"
        matrices.append(Matrix(place.kind, heading, tuple(lines(reference, others))))
    return matrices


def beside_baselines(rows: Sequence[ReportRow], most: int) -> list[Matrix]:
    """Return a matrix beside the baseline for each place with 2 to `most` rows of which none belongs to another
    matrix."""
    groups = grouped(rows, lambda row: row.place)
    headings = comparability.headings(groups)
    matrices = []
    for place, members in groups.items():
        if not 1 < len(members) <= most or any(row.cell.matrix for row in members):
            continue
        reference = next(row for row in members if row.label == row.baseline)
        others = [row for row in members if row is not reference]
        heading = f"{headings[place]}: beside {reference.label}"
        matrices.append(Matrix("baseline", heading, tuple(lines(reference, others))))
    return matrices


def lines(reference: ReportRow, others: Sequence[ReportRow]) -> list[Line]:
    """Return the lines of a matrix: the reference, then the others with their comparisons, which Holm's method corrects
    for their number. Names include the steps, those of stages included, where they differ."""
    level = [row for row in others if not (row.alone or reference.alone)]
    score = reference.score
    compared = statistics.compare(
        reference.unsigned, {row.label: row.unsigned for row in level}, bounds=scoring.bounds(score)
    )
    rows = (reference, *others)
    uneven = len({row.place.steps for row in rows}) > 1
    return [
        Line(f"{_name(row)} ({row.place.steps:,} steps)" if uneven else _name(row), row, compared.get(row.label))
        for row in rows
    ]


def in_order(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """Return `rows` with each reference directly before the rows that are compared with it."""
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(_reference(row), index)
    return sorted(rows, key=lambda row: (first[_reference(row)], row.cell.id != _reference(row)))


def legend(matrices: Sequence[Matrix], pm: bool = False) -> str:
    """Return the explanation of the numbers in these matrices and of their limits; "" without matrices.

    `pm`: differences have their standard errors rather than intervals.
    """
    if not matrices:
        return ""
    interval = "in brackets the shifts that the test does not reject at Holm's level for so many rows (95 % or more)"
    names = scoring.means(line.row.score for matrix in matrices for line in matrix.lines)
    parts = [
        f"Difference: final {names} minus that of the first row, {'± its standard error' if pm else interval}. "
        f"p: {TEST}, Holm-corrected over the rows"
        f"{'' if pm else '; below .05 exactly where the interval leaves out 0'}.",
        NEEDED,
    ]
    if any(line.row.alone for matrix in matrices for line in matrix.lines):
        parts.append(ALONE)
    return " ".join([*parts, *(f"{remark}." for remark in remarks(matrices))])


def remarks(matrices: Sequence[Matrix]) -> list[str]:
    """Return a warning for each scripted judge of the perturbations in these matrices: they check the instrument
    only."""
    cells = [line.row.cell for matrix in matrices for line in matrix.lines]
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
