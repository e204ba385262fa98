"""KAGI's dense reward: how near the gripper is to the waypoint after the one that it is nearest to (§III-B, C)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array


class Shape(NamedTuple):
    """How distances become rewards."""

    scale: float
    """λ, per pixel."""
    offset: float
    """φ, in pixels."""
    onward: bool = False
    """Whether the nearest waypoint of an episode may not go back: it is at least as far along as those before."""


def targets(positions: Array, waypoints: Array, onward: bool = False) -> Array:
    """Return the index of the waypoint to go to from each position, int [n], given positions [n, k] and waypoints [m,
    k]: the one after the nearest waypoint (the first of equally near ones), or the last one. `onward`: as in `Shape`,
    for positions in time order."""
    gaps = np.linalg.norm(positions[:, None] - waypoints, axis=-1)
    nearest = gaps.argmin(axis=1)
    if onward:
        nearest = np.maximum.accumulate(nearest)
    return np.asarray(np.minimum(nearest + 1, len(waypoints) - 1))


def dense(positions: Array, waypoints: Array, shape: Shape) -> Array:
    """Return the rewards of positions [n, k] given waypoints [m, k], in pixels, float32 [n]:
    .5·(1 − tanh(λ(d − φ))), where d is the distance to the next waypoint (KAGI, §III-C). NaN where a position is
    NaN."""
    aim = waypoints[targets(positions, waypoints, shape.onward)]
    gap = np.linalg.norm(positions - aim, axis=1)
    return np.asarray(0.5 * (1 - np.tanh(shape.scale * (gap - shape.offset))), np.float32)


def usable(answer: Any, width: int) -> Array | None:
    """Return the waypoints, float64 [m, `width`], of an answer in the role `waypoints`, as fractions of a view's side;
    None without an answer, with fewer than two waypoints, and where one is outside the views."""
    if not isinstance(answer, dict):
        return None
    try:
        waypoints = np.asarray(answer.get("waypoints"), np.float64)
    except (TypeError, ValueError):
        return None
    if waypoints.ndim != 2 or len(waypoints) < 2 or waypoints.shape[1] < width:
        return None
    waypoints = waypoints[:, :width]
    return waypoints if ((waypoints >= 0) & (waypoints <= 1)).all() else None
