"""Tracking of the object's position, for the optional reward of KAGI (§III-B): the dialogue with the tracker, and the
reward.

The pixel tracker that the paper names, CoTracker, is not in transformers; SAM 2's network for videos follows the object
in its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import AskModel, Json, TrackCall
from guidebench.methods.kagi.sight import Project, views

PROBES = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 3)] * 3), axis=-1).reshape(-1, 3)
"""Points of the world, [27, 3], by whose projections a camera's matrix is found."""
FEWEST = 6
"""Fewest points that determine a camera's matrix, which has eleven degrees of freedom."""


class Tracking:
    """A dialogue that follows a point on the object through an episode, by one call for each view."""

    calls = 2

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> list[Json] | Unusable | None:
        """Return [u, v, h] of each frame, fractions of a view's side, and None for a frame in which a view has lost the
        object; `Unusable` if that is every frame, and None if the model failed.

        `content`: {"instruction": str, "point": [u, v] in the view from above, "side": [column, row] in the side view,
        as fractions}, both of the first frame; `column_beside` tells the column. `frames`: an episode, uint8 [L, size,
        2 * size, 3].
        """
        assert frames is not None, "an episode has frames"
        size, both_views = frames.shape[1], views(frames)
        tracks = []
        for view, name in ((both_views.above, "point"), (both_views.side, "side")):
            column, row = content[name]
            point = (float(column) * size, float(row) * size)
            outcome = await ask(TrackCall(np.ascontiguousarray(view), point, str(content["instruction"])))
            if outcome.failure:
                return None
            tracks.append(outcome.value)
        above, side = tracks
        positions = [
            [float(u) / size, float(v) / size, float(h) / size] if visible_above and visible_beside else None
            for (u, v, visible_above), (_, h, visible_beside) in zip(above.tolist(), side.tolist(), strict=True)
        ]
        return positions if any(position is not None for position in positions) else Unusable(positions)


def positions(answer: Sequence[Json]) -> Array:
    """Return an answer of `Tracking` as positions (u, v, h), float64 [L, 3]; NaN for a frame without the object."""
    lost = [np.nan] * 3
    return np.array([lost if position is None else position for position in answer], np.float64).reshape(-1, 3)


def with_object(robot: Array, thing: Array) -> Array:
    """Return the mean of the rewards by the robot's position and by the object's, [L] each; the robot's reward where
    the object is lost, so that `thing` is NaN (choice: KAGI does not say how the two are joined)."""
    return np.where(np.isnan(thing), robot, (robot + thing) / 2)


def to_follow(instruction: str, grasp: Sequence[float], waypoints: Array, cameras: tuple[Project, Project]) -> str:
    """Return the content of a question to `Tracking` as JSON, or "" where the side view does not show the point.

    The point is `grasp`, (u, v), in the view from above, and in the side view its column (`column_beside`) and the
    height of the waypoint at which it is grasped: the lowest of the waypoints, fractions [m, 3], nearest to (u, v)
    (choice: KAGI does not say which point on the object is tracked). `cameras`: projections to fractions of the view
    from above and of the side view.
    """
    gaps = np.round(np.linalg.norm(waypoints[:, :2] - np.asarray(grasp), axis=1), 6)
    height = float(waypoints[gaps == gaps.min(), 2].max())
    column = column_beside(*cameras, (*grasp, height))
    if not 0 <= column < 1:
        return ""
    return json.dumps(
        {"instruction": instruction, "point": [float(coordinate) for coordinate in grasp], "side": [column, height]}
    )


def column_beside(above: Project, side: Project, point: Sequence[float]) -> float:
    """Return the column in the side view, as a fraction, of the world point that is at (u, v) in the view from above
    and in row h of the side view, given `point` = (u, v, h).

    `above` and `side` project to fractions of a view's side. Raise UserError if they do not determine the point, as two
    equal views do not.
    """
    (column,) = columns_beside(matrix(above), matrix(side), np.array([point], float))
    if not np.isfinite(column):
        raise UserError("the view from above and the side view do not determine a point; they must differ in direction")
    return float(column)


def columns_beside(above: Array, side: Array, places: Array) -> Array:
    """Return the columns in the side view, float64 [n], of places (u, v, h) [n, 3], all fractions, given the matrices
    of both cameras, [3, 4] each (`matrix`): u, v and h are three linear equations for a point of the world. NaN where
    the views do not determine the point."""
    u, v, h = (places[:, None, number] for number in range(3))
    rows = np.stack([u * above[2] - above[0], v * above[2] - above[1], h * side[2] - side[1]], axis=1)
    columns = np.full(len(places), np.nan)
    is_determined = np.isfinite(rows).all((1, 2))
    is_determined[is_determined] = np.linalg.cond(rows[is_determined, :, :3]) <= 1e8
    points = np.linalg.solve(rows[is_determined, :, :3], -rows[is_determined, :, 3:])[..., 0]
    projected = points @ side[:, :3].T + side[:, 3]
    columns[is_determined] = projected[:, 0] / projected[:, 2]
    return columns


def matrices(cameras: Sequence[Project]) -> Array | None:
    """Return the matrix of each camera, float64 [n, 3, 4]; None if a camera shows too few points (`matrix`)."""
    try:
        return np.stack([matrix(camera) for camera in cameras])
    except UserError:
        return None


def matrix(project: Project) -> Array:
    """Return the matrix of a camera, [3, 4], which maps homogeneous points of the world to homogeneous fractions of the
    view, by direct linear transform from the projections of `PROBES`. Raise UserError if fewer than 6 are visible."""
    pixels = project(PROBES)
    is_visible = np.isfinite(pixels).all(axis=1)
    if is_visible.sum() < FEWEST:
        raise UserError(
            f"a view shows {is_visible.sum()} of the {len(PROBES)} points that locate its camera; it needs 6"
        )
    points = np.concatenate([PROBES[is_visible], np.ones((is_visible.sum(), 1))], axis=1)
    nothing = np.zeros_like(points)
    columns, rows = pixels[is_visible].T[:, :, None]
    equations = np.concatenate(
        [
            np.concatenate([points, nothing, -columns * points], axis=1),
            np.concatenate([nothing, points, -rows * points], axis=1),
        ]
    )
    solution: Array = np.linalg.svd(equations)[2][-1].reshape(3, 4)
    return solution
