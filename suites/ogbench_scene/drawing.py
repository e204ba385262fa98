"""Frames of the scene from snapshots: those of `env.render()`, pixel for pixel where nothing is left out."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from guidebench.suites.mujoco.drawing import Change, ModelDrawer
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.task import DRAWN_GEOMS, DRAWN_MATERIALS, SNAPSHOT

CAMERA = "front"
"""The package's own for observers; `front_pixels` is the one of agents that see."""
ARM = 2
"""The group of what is drawn of the robot arm."""
ROWS = {"geom_rgba": DRAWN_GEOMS, "mat_rgba": DRAWN_MATERIALS}


def drawer(
    size: int,
    full: bool = False,
    hidden: Sequence[int] = (),
    model: mujoco.MjModel | None = None,
    change: Change | None = None,
) -> ModelDrawer:
    """Draws the scene in frames of `size` x `size` pixels (see ModelDrawer), by a model of its own unless one is given.

    UserError if there is no OpenGL.
    """
    model = dynamics.model() if model is None else model
    return ModelDrawer(model, SNAPSHOT, CAMERA, (size, size), rows=ROWS, full=full, hidden=hidden, change=change)
