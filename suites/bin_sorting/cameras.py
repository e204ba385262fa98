"""The two calibrated cameras, and where they show points of the world."""

from __future__ import annotations

from guidebench.harness.interfaces import Array
from guidebench.suites.mujoco import cameras
from guidebench.suites.mujoco.cameras import towards

CAMERAS = {
    "top": towards((0.40, 0.0, 1.05), (0.40, 0.0, 0.0), (1.0, 0.0, 0.0), 38.0),
    "side": towards((1.30, 0.0, 0.42), (0.40, 0.0, 0.15), (0.0, 0.0, 1.0), 42.0),
}
"""`top` looks straight down, the arm's left at the left; `side` faces the arm from across the table."""


def project(name: str, points: Array, size: int) -> Array:
    """Return the pixels (column, row), float [n, 2], of points [n, 3] in the world, in a square frame of `size` pixels
    (`suites.mujoco.cameras.project`); UserError also for an unknown camera."""
    return cameras.project(cameras.named(CAMERAS, name), points, size)
