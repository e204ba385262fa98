"""Display of a question about two segments: coordinates at start, middle and end, and a picture."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.teachers.human.files import PendingQuestion
from guidebench.harness import outside
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import recorded
from guidebench.harness.interfaces import Array, Drawer
from guidebench.harness.plan.config import Cell
from guidebench.harness.playback.sample_frames import GAP, strip
from guidebench.harness.records.files import write_bytes
from guidebench.harness.texts import one_line

FRAMES = 6
"""Frames per segment in the picture."""

NamedPoints = Mapping[str, Array]
"""Name -> points, float64 [H, n], NaN for a number that was not finite; H is 1 for constant objects."""


class Pair:
    """The validated content of a question; UserError for content that no teacher wrote."""

    def __init__(self, question: PendingQuestion) -> None:
        try:
            content = question.content
            self.instruction = str(content["instruction"])
            self.meanings = {str(name): str(words) for name, words in content["meanings"].items()}
            first, second = map(_points, content["segments"])
            if first.keys() != second.keys() or not first:
                raise ValueError("the segments tell of different things")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(
                f"{question.file} asks nothing that can be shown ({type(error).__name__}: {one_line(error)[:100]}); "
                f"remove it if no run of this program wrote it"
            ) from None
        self.first, self.second = first, second

    def lines(self) -> list[str]:
        """Return a table: object, moment, position in the first and in the second segment; then distances between
        objects."""
        rows: list[tuple[str, ...]] = [("", "", "segment 1", "segment 2")]
        for name in self.first:
            points = self.first[name], self.second[name]
            for when, step in _moments(max(map(len, points))):
                rows.append((name, when, *(_text(_at(each, step)) for each in points)))
        for one, other in itertools.combinations(self.first, 2):
            apart = _distances(self.first, one, other), _distances(self.second, one, other)
            if apart[0].size and apart[1].size:
                for when, step in _moments(max(map(len, apart))):
                    rows.append((f"{one} to {other}", when, *(_text(_at(each, step)) for each in apart)))
        cells = [[one_line(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        aligned = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
        repeated = [before[0] == row[0] for before, row in itertools.pairwise([aligned[0], *aligned])]
        return [
            "  ".join([" " * widths[0] if again else row[0], *row[1:]]).rstrip()
            for again, row in zip(repeated, aligned, strict=True)
        ]


def _points(segment: Any) -> NamedPoints:
    found = {str(name): np.atleast_2d(np.array(points, np.float64)) for name, points in segment.items()}
    for name, points in found.items():
        if points.ndim != 2 or not points.size:
            raise ValueError(f"{name} has no points")
    return found


def _at(points: Array, step: int) -> Array:
    return np.asarray(points[min(step, len(points) - 1)])


def _moments(length: int) -> list[tuple[str, int]]:
    """Return the steps shown, with their names."""
    if length == 1:
        return [("throughout", 0)]
    named = {0: "start", length - 1: "end", length // 2: "middle"} if length > 2 else {0: "start", 1: "end"}
    return [(named[step], step) for step in sorted(named)]


def _distances(segment: NamedPoints, one: str, other: str) -> Array:
    """Return distances float64 [H, 1] of two objects in one space; empty if their spaces differ."""
    here, there = segment[one], segment[other]
    if here.shape[1] != there.shape[1] or (len(here) != len(there) and 1 not in (len(here), len(there))):
        return np.empty((0, 1))
    return np.asarray(np.linalg.norm(here - there, axis=1, keepdims=True))


def _text(values: Array) -> str:
    return "  ".join("?".rjust(8) if np.isnan(value) else f"{value:8.4f}" for value in values.tolist())


class Pictures:
    """Draws a question to ORDINAL.png beside it: the first segment above, the second below, time to the right."""

    def __init__(self) -> None:
        self._drawers: dict[Path, Drawer] = {}

    def __call__(self, question: PendingQuestion) -> Path | None:
        """Return the picture's path, or None for a question without snapshots; UserError if it cannot be drawn."""
        snapshots = question.snapshots()
        if snapshots is None:
            return None
        import imageio.v2 as imageio

        segments = np.split(snapshots, 2) if len(snapshots) and len(snapshots) % 2 == 0 else []
        if not segments:
            raise UserError(f"{question.file}: {len(snapshots)} snapshots are not those of two segments")
        shown = np.unique(np.linspace(0, len(segments[0]) - 1, FRAMES).round().astype(int))
        try:
            drawer = self._drawer(question.run.parent)
            above, below = (strip(drawer(np.ascontiguousarray(each[shown]))) for each in segments)
        except (ImportError, RuntimeError, ValueError) as error:  # a package is missing, or bytes of another task
            raise UserError(f"{question.file} cannot be drawn ({one_line(error)})") from None
        between = np.full((GAP, above.shape[1], 3), 255, np.uint8)
        path = question.file.with_suffix(".png")
        write_bytes(path, imageio.imwrite("<bytes>", np.concatenate([above, between, below]), format="png"))
        return path

    def _drawer(self, directory: Path) -> Drawer:
        """Return the drawer for a cell's directory: the cell's own, or the suite's default."""
        if directory not in self._drawers:
            cell: Cell = recorded(outside.read_document(directory / "cell.json"))
            drawing: Any = cell.section("drawing") or cell.section("suite").drawing()
            drawn: Drawer = drawing.spawn(cell.names.task)
            self._drawers[directory] = drawn
        return self._drawers[directory]
