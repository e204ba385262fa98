"""The object's pixels, for the optional reward of KAGI (§III-B): the dialogue of the role `tracker`, and the reward.

The pixel tracker that the paper names, CoTracker, is not in transformers; SAM 2's network for videos follows the object
in its place.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import Call, CallResult, Json, TrackCall
from guidebench.methods.kagi.sight import Project, views

PROBES = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 3)] * 3), axis=-1).reshape(-1, 3)
"""Points of the world by which a camera's matrix is found."""
FEWEST = 6
"""Points that determine a camera's matrix, of eleven free numbers."""


class Tracking:
    """A dialogue that follows a point on the object through an episode, by one call for each view."""

    calls = 2

    async def __call__(
        self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]
    ) -> list[Json] | Unusable | None:
        """Return [u, v, h] of each frame, fractions of a view's side, and None for a frame in which a view has lost the
        object; `Unusable` if that is every frame, and None if the model failed.

        `content`: {"instruction": str, "point": [u, v] in the view from above, "side": [column, row] in the side view,
        as fractions}, both of the first frame; `column_beside` tells the column. `frames`: an episode, uint8 [L, size,
        2 * size, 3].
        """
        assert frames is not None, "an episode has frames"
        size, seen = frames.shape[1], views(frames)
        found = []
        for view, name in ((seen.above, "point"), (seen.side, "side")):
            column, row = content[name]
            point = (float(column) * size, float(row) * size)
            told = await ask(TrackCall(np.ascontiguousarray(view), point, str(content["instruction"])))
            if told.failure:
                return None
            found.append(told.value)
        above, side = found
        followed = [
            [float(u) / size, float(v) / size, float(h) / size] if kept and shown else None
            for (u, v, kept), (_, h, shown) in zip(above.tolist(), side.tolist(), strict=True)
        ]
        return followed if any(each is not None for each in followed) else Unusable(followed)


def positions(answer: Sequence[Json]) -> Array:
    """Return the answer of `Tracking` as float64 [L, 3]; a frame without the object is NaN."""
    lost = [np.nan] * 3
    return np.array([lost if each is None else each for each in answer], np.float64).reshape(-1, 3)


def with_object(robot: Array, thing: Array) -> Array:
    """Return the reward of each frame, [L], given those by the robot's and by the object's position; the mean of both,
    and the robot's where the object is lost and its reward NaN (choice: KAGI does not say how the two are joined)."""
    return np.where(np.isnan(thing), robot, (robot + thing) / 2)


def to_follow(instruction: str, grasp: Sequence[float], waypoints: Array, cameras: tuple[Project, Project]) -> str:
    """Return what `Tracking` is asked to follow, JSON: the grasp point (u, v), and in the side view the column that
    belongs to it (`column_beside`) and the height of the waypoint at which it is grasped. Return "" where the side view
    does not show this point.

    `waypoints`: fractions [m, 3]. That waypoint is the lowest of those nearest to (u, v) (choice: KAGI does not say
    which point on the object is tracked). `cameras`: to fractions of the view from above and of that from the side.
    """
    gaps = np.round(np.linalg.norm(waypoints[:, :2] - np.asarray(grasp), axis=1), 6)
    height = float(waypoints[gaps == gaps.min(), 2].max())
    column = column_beside(*cameras, (*grasp, height))
    if not 0 <= column < 1:
        return ""
    return json.dumps({"instruction": instruction, "point": [float(each) for each in grasp], "side": [column, height]})


def column_beside(above: Project, side: Project, point: Sequence[float]) -> float:
    """Return the column, as a fraction, at which the side view shows what is at (u, v) in the view from above and in
    the row h of the side view, given `point` = (u, v, h).

    Both views map to fractions of their side. Raise UserError if they do not determine it, as two equal views do not.
    """
    (column,) = columns_beside(matrix(above), matrix(side), np.array([point], float))
    if not np.isfinite(column):
        raise UserError("the view from above and the side view do not determine a point; they must differ in direction")
    return float(column)


def columns_beside(above: Array, side: Array, places: Array) -> Array:
    """Return the columns, float64 [n], at which the side view shows places (u, v, h) [n, 3], all fractions, by the
    cameras' matrices [3, 4] (`matrix`): u, v and h are three linear equations for a point of the world. NaN where the
    views do not determine it."""
    u, v, h = (places[:, None, number] for number in range(3))
    rows = np.stack([u * above[2] - above[0], v * above[2] - above[1], h * side[2] - side[1]], axis=1)
    found = np.full(len(places), np.nan)
    known = np.isfinite(rows).all((1, 2))
    known[known] = np.linalg.cond(rows[known, :, :3]) <= 1e8
    points = np.linalg.solve(rows[known, :, :3], -rows[known, :, 3:])[..., 0]
    seen = points @ side[:, :3].T + side[:, 3]
    found[known] = seen[:, 0] / seen[:, 2]
    return found


def matrices(cameras: Sequence[Project]) -> Array | None:
    """Return the matrix of each camera, float64 [n, 3, 4]; None where one shows too few points to tell."""
    try:
        return np.stack([matrix(camera) for camera in cameras])
    except UserError:
        return None


def matrix(project: Project) -> Array:
    """Return the matrix [3, 4] of a camera, by which homogeneous points become homogeneous fractions, from where it
    shows `PROBES` (direct linear transform). Raise UserError if it shows too few."""
    shown = project(PROBES)
    seen = np.isfinite(shown).all(axis=1)
    if seen.sum() < FEWEST:
        raise UserError(f"a view shows {seen.sum()} of the {len(PROBES)} points that locate its camera; it needs 6")
    points = np.concatenate([PROBES[seen], np.ones((seen.sum(), 1))], axis=1)
    nothing = np.zeros_like(points)
    columns, rows = shown[seen].T[:, :, None]
    equations = np.concatenate(
        [
            np.concatenate([points, nothing, -columns * points], axis=1),
            np.concatenate([nothing, points, -rows * points], axis=1),
        ]
    )
    solution: Array = np.linalg.svd(equations)[2][-1].reshape(3, 4)
    return solution
