"""The two calibrated cameras, and where they show points of the world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array


class Camera(NamedTuple):
    """A camera that does not move."""

    position: Array  # [3], metres in the world
    axes: Array  # [2, 3], the frame's right and up as unit vectors of the world; it looks against their cross product
    fovy: float  # vertical field of view, degrees


def _towards(position: tuple[float, ...], target: tuple[float, ...], up: tuple[float, ...], fovy: float) -> Camera:
    """Return the camera at `position` that looks at `target` with `up` upwards in its frames."""
    forward = np.subtract(target, position)
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    above = np.cross(right, forward)
    return Camera(np.array(position), np.stack([right, above / np.linalg.norm(above)]), fovy)


CAMERAS = {
    "top": _towards((0.40, 0.0, 1.05), (0.40, 0.0, 0.0), (1.0, 0.0, 0.0), 38.0),
    "side": _towards((1.30, 0.0, 0.42), (0.40, 0.0, 0.15), (0.0, 0.0, 1.0), 42.0),
}
"""`top` looks straight down, the arm's left at the left; `side` faces the arm from across the table."""


def project(name: str, points: Array, size: int) -> Array:
    """Return the pixels (column, row), float [n, 2], of points [n, 3] in the world, in a square frame of `size` pixels.

    The frame's upper left corner is (0, 0) and the centre of its first pixel (.5, .5). Points beyond the frame's edge
    have pixels outside [0, size]; those behind the camera are NaN. UserError for an unknown camera, points of another
    shape, or a size below 1.
    """
    if name not in CAMERAS:
        raise unknown("camera", name, tuple(CAMERAS))
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 3:
        raise UserError(f"points of shape {list(points.shape)} cannot be projected; expected [n, 3], in metres")
    if size < 1:
        raise UserError(f"a frame of {size} pixels has no place for points; give its side, 1 or more")
    camera = CAMERAS[name]
    offset = points - camera.position
    right, up = camera.axes @ offset.T
    depth = offset @ -np.cross(*camera.axes)
    focal = size / 2 / np.tan(np.radians(camera.fovy) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(depth > 0, focal / depth, np.nan)
    return np.stack([size / 2 + right * scale, size / 2 - up * scale], axis=-1)
