"""Frames of the mazes from snapshots, pixel for pixel those of `env.render()` at full quality."""

from __future__ import annotations

from typing import Any

import mujoco

from guidebench.suites.mujoco.drawing import ModelDrawer
from guidebench.suites.point_maze.task import SNAPSHOT, package

CENTRE = (0.0, 0.0, 0.2)
"""Point at which the camera looks. The package uses the median position of walls and ball at the first frame that it
draws: this point in the open and the U maze, and up to half a metre from it in the medium maze."""


def camera(env: Any) -> mujoco.MjvCamera:
    """Return the package's camera: free, at its distance for the maze, obliquely from above."""
    free = mujoco.MjvCamera()
    free.lookat[:] = CENTRE
    free.distance = env.point_env.mujoco_renderer.default_cam_config["distance"]
    return free


def drawer(task: str, size: int, full: bool = False) -> ModelDrawer:
    """Return a drawer of a maze in frames of `size` x `size` pixels (see ModelDrawer); UserError if there is no
    OpenGL."""
    env = package(task)
    return ModelDrawer(env.model, SNAPSHOT, camera(env), (size, size), rows={"site_pos": ("target",)}, full=full)
