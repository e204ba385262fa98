"""Trajectories as text and back: segments of observations, and the coordinates in them that words can tell.

A *told* trajectory is a mapping: name -> points, [H][3] of what moves, [3] of what stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, Coordinates

NamedPoints = Mapping[str, Array]
"""Name -> float64 [H, n], or [n] of a constant thing."""


def told(things: Sequence[Coordinates], segment: Array) -> dict[str, Array]:
    """What there is to tell of observations [H, D]; a constant thing is where it is in the first."""
    found = {}
    for thing in things:
        points = np.asarray(segment, np.float64)[:, list(thing.entries)]
        found[thing.name] = points[0] if thing.constant else points
    return found


def text(trajectory: NamedPoints, decimals: int) -> str:
    """JSON of it, one line for each thing (RL-SaLLM-F, app. C.2)."""

    def written(points: float | list[Any]) -> str:
        if isinstance(points, list):
            return "[" + ", ".join(map(written, points)) + "]"
        return f"{round(points, decimals) + 0.0:.{decimals}f}"  # no -0.0000

    lines = ",\n".join(f'  "{name}": {written(points.tolist())}' for name, points in trajectory.items())
    return f"{{\n{lines}\n}}"


def beginning(trajectory: NamedPoints) -> dict[str, Array]:
    """Its first step alone."""
    return {name: points if points.ndim == 1 else points[:1] for name, points in trajectory.items()}


def states(things: Sequence[Coordinates], preferred: Array, imagined: NamedPoints) -> Array:
    """The states, float32 [H, D], that an imagined trajectory stands for; `preferred` [H, D] is the segment that it is
    to better, from whose first state it begins (RL-SaLLM-F, §5.3).

    A thing's `former` entries hold where it was a step before. What no thing tells of (a gripper's opening) is as in
    the preferred segment, step by step, since nothing was said of it (choice).
    """
    found = np.array(preferred, np.float32)
    for thing in things:
        now = list(thing.entries)
        if thing.constant:
            found[:, now] = found[0, now]
        else:
            found[1:, now] = imagined[thing.name][1:]
        if thing.former:
            found[1:, list(thing.former)] = found[:-1, now]
    return found
