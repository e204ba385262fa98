"""Cameras that stand still: where they show points of the world, and which pair a suite's models see side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Array

if TYPE_CHECKING:
    import mujoco

BOTH = "both"
"""Value of the setting `drawing.camera` under which a frame shows two cameras side by side."""


class Camera(NamedTuple):
    """A camera that does not move."""

    position: Array  # [3], metres in the world
    axes: Array  # [2, 3], the frame's right and up as unit vectors of the world; it looks against their cross product
    fovy: float  # vertical field of view, degrees


def towards(position: tuple[float, ...], target: tuple[float, ...], up: tuple[float, ...], fovy: float) -> Camera:
    """Return the camera at `position` that looks at `target` with `up` upwards in its frames."""
    forward = np.subtract(target, position)
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    above = np.cross(right, forward)
    return Camera(np.array(position), np.stack([right, above / np.linalg.norm(above)]), fovy)


def of_model(model: mujoco.MjModel, name: str) -> Camera:
    """Return a model's camera that is fixed to the world, turned by 180° if it hangs upside down."""
    number = model.camera(name).id
    axes = model.cam_mat0[number].reshape(3, 3)[:, :2].T
    return Camera(model.cam_pos[number].copy(), -axes if axes[1, 2] < 0 else axes.copy(), float(model.cam_fovy[number]))


def project(camera: Camera, points: Array, size: int) -> Array:
    """Return the pixels (column, row), float [n, 2], of points [n, 3] in the world, in a square frame of `size` pixels.

    The frame's upper left corner is (0, 0) and the centre of its first pixel (.5, .5). Points beyond the frame's edge
    have pixels outside [0, size]; those behind the camera are NaN. UserError for points of another shape, or a size
    below 1.
    """
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 3:
        raise UserError(f"points of shape {list(points.shape)} cannot be projected; expected [n, 3], in metres")
    if size < 1:
        raise UserError(f"a frame of {size} pixels has no place for points; give its side, 1 or more")
    offset = points - camera.position
    right, up = camera.axes @ offset.T
    depth = offset @ -np.cross(*camera.axes)
    focal = size / 2 / np.tan(np.radians(camera.fovy) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(depth > 0, focal / depth, np.nan)
    return np.stack([size / 2 + right * scale, size / 2 - up * scale], axis=-1)


def named(cameras: Mapping[str, Camera], name: str) -> Camera:
    """Return the camera of that name; UserError for an unknown one."""
    if name not in cameras:
        raise unknown("camera", name, tuple(cameras))
    return cameras[name]
