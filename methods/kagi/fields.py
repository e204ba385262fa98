"""The dense reward as a field over the pixels of both views, for figures.

The reward is a function of three coordinates (u, v, h), and a view shows two. The missing coordinate of a pixel comes
from the waypoint nearest to it in that view (of equally near ones the last): from above, it is that waypoint's height;
from the side, the place is reached from the waypoint by moving up or down and across that camera's line of sight. So
the field has at each waypoint the reward that a gripper there receives.
"""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.methods.kagi.rewards import Shape, dense
from guidebench.methods.kagi.tracking import columns_beside

NEAR = 1e-3
"""Distance, as a fraction of a view's side, over which slopes are measured."""


def above(waypoints: Array, shape: Shape, size: int) -> Array:
    """Return the reward at each pixel of the view from above, float32 [size, size], given waypoints [m, 2 or 3] in
    pixels. `shape.onward` is ignored, since a field has no order in time."""
    pixels = _pixels(size)
    places = waypoints[_nearest(pixels, waypoints[:, :2])].astype(float)
    places[:, :2] = pixels
    return dense(places, waypoints, shape._replace(onward=False)).reshape(size, size)


def beside(waypoints: Array, cameras: Array, shape: Shape, size: int) -> Array:
    """Return the reward at each pixel of the view from the side, float32 [size, size], given waypoints [m, 3] in pixels
    and the matrices of both cameras [2, 3, 4] (`Sight.cameras`); NaN where these do not determine a place."""
    fractions = waypoints / size
    columns = columns_beside(cameras[0], cameras[1], fractions)
    # Columns change along (u, v) by these slopes; the shortest way to another column is along them.
    slopes = np.stack(
        [(columns_beside(cameras[0], cameras[1], fractions + NEAR * step) - columns) / NEAR for step in np.eye(3)[:2]],
        axis=1,
    )
    pixels = _pixels(size)
    points = np.stack([columns * size, waypoints[:, 2]], axis=1)
    nearest = _nearest(pixels, np.where(np.isfinite(points), points, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        across = slopes / (slopes**2).sum(axis=1, keepdims=True)
        places = waypoints[nearest].astype(float)
        places[:, :2] += (pixels[:, :1] - points[nearest, :1]) * across[nearest]
        places[:, 2] = pixels[:, 1]
        return dense(places, waypoints, shape._replace(onward=False)).reshape(size, size)


def _pixels(size: int) -> Array:
    """Return the centres (column, row) of the pixels of a view, [size², 2], row by row."""
    rows, columns = np.mgrid[:size, :size] + 0.5
    return np.stack([columns.ravel(), rows.ravel()], axis=1)


def _nearest(pixels: Array, points: Array) -> Array:
    """Return the index of the point nearest to each pixel, the last of equally near ones, [n]."""
    gaps = np.linalg.norm(pixels[:, None] - points[::-1], axis=-1)
    return np.asarray(len(points) - 1 - gaps.argmin(axis=1))
