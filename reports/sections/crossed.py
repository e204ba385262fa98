"""Two crossed settings: if a study's cells differ in exactly two settings and cover every pair of values, a heat
map."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.grouping import grouped
from guidebench.harness.interfaces import Score
from guidebench.harness.records import schema
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Cells, Drawing
from guidebench.reports.summary import scoring
from guidebench.reports.summary.records import value_of
from guidebench.reports.summary.rows import ReportRow
from guidebench.results import CellRecord

NUMBERED = 20
"""Most values of a setting in a map with numbers; a map of more shows colours alone."""
REMARK = (
    "The final score, the mean over seeds, for every pair of two settings. Bold: the best of the task, by the rule "
    "below the tables. The intervals are in the tables."
)


class SweepGrid(NamedTuple):
    """The rows of one method on one task in a full grid of two settings; `rows[i][j]` has the i-th value of the first
    setting and the j-th of the second.

    None where a cell has not been evaluated yet.
    """

    task_id: str
    label: str
    fields: tuple[str, str]
    values: tuple[tuple[str, ...], tuple[str, ...]]
    rows: tuple[tuple[ReportRow | None, ...], ...]

    @property
    def score(self) -> Score:
        """Return the score of the rows."""
        return next(row.score for line in self.rows for row in line if row)

    @property
    def share(self) -> bool:
        """Return whether scores lie between 0 and 1."""
        return (self.score.low, self.score.high) == (0, 1)

    @property
    def texts(self) -> list[list[str]]:
        """Return the final scores as text, in the shape of `rows`; dashes where there is none."""
        digits = scoring.digits(row.final for line in self.rows for row in line if row)
        return [["—" if row is None else f"{row.final.estimate:.{digits}f}" for row in line] for line in self.rows]

    @property
    def numbered(self) -> bool:
        """Return whether the map has room for numbers."""
        return max(map(len, self.values)) <= NUMBERED


def grids(cells: Sequence[CellRecord], rows: Sequence[ReportRow]) -> list[SweepGrid]:
    """Return the full grids among `cells`: one task, method, learner, judge and profile, and exactly two settings that
    differ."""
    groups = grouped(
        cells,
        lambda cell: (cell.suite, cell.task, cell.method, cell.learner, cell.backend, cell.model, cell.profile),
    )
    by_cell = {row.cell.id: row for row in rows}
    learners = {cell.learner for cell in cells}
    sweep_grids = []
    for members in groups.values():
        first, fields = members[0], _differing(members)
        if len(fields) != 2:
            continue
        pairs = {tuple(_text(cell, field) for field in fields): cell for cell in members}
        axes = [_ordered({pair[index]: None for pair in pairs}) for index in (0, 1)]
        if len(pairs) != len(members) or set(pairs) != set(product(*axes)):
            continue
        if len(axes[0]) > len(axes[1]):  # the longer axis is horizontal
            fields, axes = fields[::-1], axes[::-1]
            pairs = {pair[::-1]: cell for pair, cell in pairs.items()}
        table = tuple(tuple(by_cell.get(pairs[high, wide].id) for wide in axes[1]) for high in axes[0])
        if any(row for line in table for row in line):
            method = f"{first.method} + {first.learner}" if len(learners) > 1 else first.method
            label = schema.label(method, first.backend, first.model, first.profile)
            sweep_grids.append(
                SweepGrid(
                    first.task_id,
                    label,
                    (fields[0], fields[1]),
                    (tuple(axes[0]), tuple(axes[1])),
                    table,
                )
            )
    return sweep_grids


def _differing(cells: Sequence[CellRecord]) -> list[str]:
    names = dict.fromkeys(name for cell in cells for name in cell.settings)
    return [name for name in names if len({_text(cell, name) for cell in cells}) > 1]


def _text(cell: CellRecord, field: str) -> str:
    """Return a setting's value as JSON; a dash if the cell has no such setting."""
    if field not in cell.settings:
        return "—"
    setting: Any = cell.settings[field]
    value = value_of(setting)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _ordered(values: Mapping[str, None]) -> list[str]:
    """Sort the values of a setting: numbers by size, then other texts in their given order."""

    def size(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return np.inf

    return sorted(values, key=size)


def drawings(grids: Sequence[SweepGrid]) -> list[Drawing]:
    """Draw a heat map per grid."""
    drawings = []
    for grid in grids:
        caption = f"{grid.task_id}: {grid.label}"
        name = figures.file_name("crossed", f"{grid.task_id}-{grid.label}")
        values = np.array(
            [[np.nan if row is None else row.final.estimate for row in line] for line in grid.rows], float
        )
        cells = Cells(
            values,
            [
                [text + ("†" if row is not None and row.alone else "") for text, row in zip(*line, strict=True)]
                for line in zip(grid.texts, grid.rows, strict=True)
            ],
            np.array([[row is not None and row.leading for row in line] for line in grid.rows]),
            *grid.values,
            scale=(0.0, 1.0) if grid.share else (float(np.nanmin(values)), float(np.nanmax(values))),
        )
        title = f"final {scoring.title(grid.score)}, {caption}"
        draw = figures.heat_map if grid.numbered else figures.colour_map
        png, pdf = draw(title, cells, grid.fields[1], grid.fields[0])
        drawings.append(Drawing(caption, name, png, pdf, _words(grid, caption)))
    return figures.numbered(drawings)


def _words(grid: SweepGrid, caption: str) -> str:
    down, across = grid.fields
    cells = [
        (f"{down}={high}, {across}={wide}", row, text)
        for high, *line in zip(grid.values[0], grid.rows, grid.texts, strict=True)
        for wide, row, text in zip(grid.values[1], *line, strict=True)
    ]
    opening = f"Heat map of final {grid.score.name} on {caption}, {down} down, {across} across."
    if grid.numbered:
        parts = (f"{name}: {'not evaluated' if row is None else text}" for name, row, text in cells)
        return f"{opening} {'; '.join(parts)}."
    evaluated = sorted(((row.final.estimate, name, text) for name, row, text in cells if row), key=lambda cell: cell[0])
    (_, lowest, low), (_, highest, high) = evaluated[0], evaluated[-1]
    span = f"from {low} ({lowest}) to {high} ({highest})"
    return f"{opening} {len(evaluated):,} of {len(cells):,} pairs are evaluated, {span}."
