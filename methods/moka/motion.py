"""The fixed motions of MOKA: from points of an image to places in the world, and from these to an order of movements.

A point of the view from above belongs to a place in the world only together with a height. MOKA takes heights that are
set in advance, instead of those that a model reads from a side view (KAGI, appendix).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

if TYPE_CHECKING:
    from guidebench.methods.moka import OpenLoop

STEP = 1e-3
"""Distance over which the projection's slope is measured, metres."""
ROUNDS = 20
"""Most corrections of a place; a pinhole camera needs a handful."""
CLOSE = 1e-6
"""Difference, in sides of the frame, at which a projected place is the point."""


class Leg(NamedTuple):
    """One movement."""

    place: Array
    """Where the gripper's tip goes, float [3], metres in the world."""
    closed: bool
    """Whether the gripper is commanded to be closed meanwhile."""
    wait: int
    """Steps at the place before the next movement: 0 moves on at once, more lets the gripper open or close."""


def placed(suite: Any, task: str, camera: str, points: Array, height: float) -> Array:
    """Return the places of the world [n, 3], in metres, at this height that a camera shows at points [n, 2], (column,
    row) as fractions of its frame's side. `suite` has `harness.capabilities.Projects`.

    UserError where no place at this height is at a point, such as one above the horizon.
    """
    points = np.asarray(points, float).reshape(-1, 2)
    places = np.zeros((len(points), 3))
    places[:, 2] = height
    for _ in range(ROUNDS):
        projected = suite.project(task, camera, places, 1)
        missed = points - projected
        if not np.isfinite(missed).all():
            break
        if np.abs(missed).max(initial=0.0) < CLOSE:
            return places
        slopes = [(suite.project(task, camera, places + STEP * axis, 1) - projected) / STEP for axis in np.eye(3)[:2]]
        places[:, :2] += np.einsum("nij,nj->ni", np.linalg.pinv(np.stack(slopes, -1)), missed)
    rounded = points.round(3).tolist()
    raise UserError(f"no place at a height of {height:g} m is where the camera {camera!r} shows the points {rounded}")


def legs(grasp: Array, between: Sequence[Array], release: Array, travel: float, wait: int) -> list[Leg]:
    """Return the movements that carry a thing from `grasp` [3] over the places `between` [3] to `release` [3]: above
    the thing, down, close, up, along at the height `travel`, above the release, down, open, up. Heights are in metres;
    `wait`: steps for opening and closing."""

    def over(place: Array) -> Array:
        return np.array([*place[:2], travel])

    return [
        Leg(over(grasp), False, 0), Leg(np.asarray(grasp), False, 0), Leg(np.asarray(grasp), True, wait),
        Leg(over(grasp), True, 0), *(Leg(over(place), True, 0) for place in between), Leg(over(release), True, 0),
        Leg(np.asarray(release), True, 0), Leg(np.asarray(release), False, wait), Leg(over(release), False, 0),
    ]  # fmt: skip


def led(config: OpenLoop, suite: Any, task: str, keypoints: Any, answer: Any) -> list[Leg]:
    """Return the movements of an episode, given its `keypoints` {"grasp", "target"} and the answer of the waypoints'
    model (`kagi.questions.answer`); none without an answer, or if one of its points has no place at the configured
    heights."""
    if answer is None:
        return []
    camera = suite.cameras_of(task)[0]
    grasp, target = (np.array(keypoints[name][answer[name] - 1]) for name in ("grasp", "target"))

    def at(points: Array, height: float) -> Array:
        return placed(suite, task, camera, points, height)

    between = along(np.array(answer["waypoints"]), grasp, target)
    try:
        return legs(
            at(grasp, config.grasp_height)[0], [*at(between, config.travel_height)],
            at(target, config.release_height)[0], config.travel_height, config.wait,
        )  # fmt: skip
    except UserError:
        return []


def along(waypoints: Array, grasp: Array, target: Array) -> Array:
    """Return the waypoints [k, 2] of the view from above, fractions of its side, that lie between the grasp and the
    target: those after the one nearest to the grasp, and before the one that is then nearest to the target; without
    repetitions of a point. `waypoints` [W, 2 or more], `grasp` [2] and `target` [2]."""
    path = np.asarray(waypoints, float)[:, :2]
    first = int(np.linalg.norm(path - grasp, axis=1).argmin())
    rest = path[first + 1 :]
    last = int(np.linalg.norm(rest - target, axis=1).argmin()) if len(rest) else 0
    between = rest[:last]
    changed = [number for number, point in enumerate(between) if number == 0 or (point != between[number - 1]).any()]
    return np.asarray(between[changed])
