"""The content of a question for an episode's waypoints, and the form of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.methods.kagi.blocks import Block, Grid

SEGMENTER, WAYPOINTS, TRACKER = "segmenter", "waypoints", "tracker"
"""Roles of the model that finds the candidates, of the chat that chooses waypoints, and of the model that follows the
object."""
MODEL_SETS: Mapping[str, Mapping[str, str]] = {
    name: {SEGMENTER: name, WAYPOINTS: name} for name in ("scripted", "oracle")
}
"""Name of a set of models -> its parts for segmenter and waypoints."""
COLOURED = ("bin_sorting",)
"""Suites whose instructions name a colour and a place that the hand-written models know."""
POINTS = 9
"""Most candidates of a kind."""
LARGEST = 12
"""Most tiles along a side of the view from above (choice: labels of more could not be read)."""
DEFAULT = Grid()


def oracles(parts: Mapping[str, Any]) -> frozenset[str]:
    """Return which of the roles `segmenter` and `waypoints` an oracle fills, given the parts by role; questions to
    these state the true places."""
    return frozenset(role for role in (SEGMENTER, WAYPOINTS) if getattr(parts.get(role), "backend", "") == "oracle")


class Candidates(NamedTuple):
    """Points among which a model selects, as fractions of the view from above, [[u, v], …]."""

    grasp: Sequence[Sequence[float]]
    """P1, P2, …: where the thing may be grasped."""
    target: Sequence[Sequence[float]]
    """Q1, Q2, …: where it may be brought."""


class WaypointQuestion(NamedTuple):
    """The content of a question for an episode's waypoints."""

    instruction: str
    candidates: Candidates
    grid: Grid = DEFAULT
    """The division of the views; without heights, the model sees the view from above alone."""
    start: Sequence[float] | None = None
    """The gripper's place (u, v, h), which the prompt then states."""

    def content(self) -> str:
        """Return the question's content, JSON: instruction, grasp, target, and, where they are not the default, grid,
        views and start."""
        content: dict[str, Any] = {"instruction": self.instruction}
        for name, points in self.candidates._asdict().items():
            content[name] = np.asarray(points, float).tolist()
        if self.grid.size != DEFAULT.size:
            content["grid"] = self.grid.size
        if not self.grid.heights:
            content["views"] = "single"
        if self.start is not None:
            content["start"] = [float(coordinate) for coordinate in self.start]
        return json.dumps(content)


def read(content: Any) -> WaypointQuestion:
    """Return a question from its parsed content. ValueError unless it has 1 to `POINTS` candidates of each kind in
    [0, 1], a grid of 2 to `LARGEST` tiles and a start of finite numbers."""
    candidates = [_points(content, name) for name in Candidates._fields]
    size, views = content.get("grid", DEFAULT.size), content.get("views", "both")
    if size not in range(2, LARGEST + 1):
        raise ValueError(f"a grid of {size!r} tiles cannot be labelled; choose 2 to {LARGEST}")
    if views not in ("both", "single"):
        raise ValueError(f"views are {views!r}, expected 'both' or 'single'")
    grid, start = Grid(int(size), views == "both"), content.get("start")
    if start is not None and (len(start) < 2 + grid.heights or not np.isfinite(np.asarray(start, float)).all()):
        raise ValueError(f"the gripper is at {start!r}, expected (u, v, h) as finite numbers")
    return WaypointQuestion(str(content["instruction"]), Candidates(*candidates), grid, start)


def answer(grasp: int, target: int, blocks: Sequence[Block], grid: Grid) -> dict[str, Any]:
    """Return the answer to a question: the numbers of the selected points, from 1; the waypoints as fractions of the
    views, [[u, v, h], …], or [[u, v], …] without heights; the blocks that they come from, [[tile, line or None], …];
    and how many replies could not be read before (`retries`, 0 here)."""
    return {
        "grasp": grasp,
        "target": target,
        "waypoints": [grid.waypoint(block) for block in blocks],
        "blocks": [list(block) for block in blocks],
        "retries": 0,
    }


def _points(content: Any, name: str) -> list[list[float]]:
    points: Array = np.asarray(content[name], float)
    if points.ndim != 2 or points.shape[1] != 2 or not 1 <= len(points) <= POINTS:
        raise ValueError(f"{name} has the shape {list(points.shape)}, expected [1 to {POINTS}, 2], of (u, v)")
    if not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"{name} holds {points.tolist()}, expected fractions of the view's side in [0, 1]")
    fractions: list[list[float]] = points.tolist()
    return fractions
