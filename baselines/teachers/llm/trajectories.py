"""Conversion between segments of observations and trajectories as text, which contain the named coordinates.

A trajectory maps each name to points, [H][3] for moving objects, [3] for constant ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, Coordinates

NamedPoints = Mapping[str, Array]
"""Name -> float64 [H, n], or [n] for a constant object."""


def named_points(things: Sequence[Coordinates], segment: Array) -> dict[str, Array]:
    """Return the named coordinates of observations [H, D]; a constant object has its first position."""
    found = {}
    for thing in things:
        points = np.asarray(segment, np.float64)[:, list(thing.entries)]
        found[thing.name] = points[0] if thing.constant else points
    return found


def text(trajectory: NamedPoints, decimals: int) -> str:
    """Return the trajectory as JSON, one line per object (RL-SaLLM-F, app. C.2)."""

    def written(points: float | list[Any]) -> str:
        if isinstance(points, list):
            return "[" + ", ".join(map(written, points)) + "]"
        return f"{round(points, decimals) + 0.0:.{decimals}f}"  # no -0.0000

    lines = ",\n".join(f'  "{name}": {written(points.tolist())}' for name, points in trajectory.items())
    return f"{{\n{lines}\n}}"


def beginning(trajectory: NamedPoints) -> dict[str, Array]:
    """Return the trajectory's first step."""
    return {name: points if points.ndim == 1 else points[:1] for name, points in trajectory.items()}


def states(things: Sequence[Coordinates], preferred: Array, imagined: NamedPoints) -> Array:
    """Return the states, float32 [H, D], of an imagined trajectory. `preferred` [H, D] is the segment that it improves
    on, from whose first state it begins (RL-SaLLM-F, §5.3).

    An object's `former` entries hold its position one step before. Entries without a named coordinate (a gripper's
    opening) are copied from the preferred segment, step by step, since the model was not asked for them (choice).
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
