"""Frames of the mazes from snapshots: those of `env.render()`, pixel for pixel where nothing is left out."""

from __future__ import annotations

from typing import Any

import mujoco

from guidebench.suites.mujoco.drawing import ModelDrawer
from guidebench.suites.point_maze.task import SNAPSHOT, package

CENTRE = (0.0, 0.0, 0.2)
"""What the camera looks at. The package takes the median place of walls and ball at the first frame it draws: this
point in the open and the U maze, and in the medium one up to half a metre from it."""


def camera(env: Any) -> mujoco.MjvCamera:
    """The package's: free, at its distance for the maze, obliquely from above."""
    free = mujoco.MjvCamera()
    free.lookat[:] = CENTRE
    free.distance = env.point_env.mujoco_renderer.default_cam_config["distance"]
    return free


def drawer(task: str, size: int, full: bool = False) -> ModelDrawer:
    """Draws a maze in frames of `size` x `size` pixels (see ModelDrawer). UserError if there is no OpenGL."""
    env = package(task)
    return ModelDrawer(env.model, SNAPSHOT, camera(env), (size, size), rows={"site_pos": ("target",)}, full=full)
