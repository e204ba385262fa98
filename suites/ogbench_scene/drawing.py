"""Frames of the scene from snapshots, pixel for pixel those of `env.render()` at full quality."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from guidebench.suites.mujoco.drawing import Change, ModelDrawer
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.cameras import VIEWS
from guidebench.suites.ogbench_scene.task import DRAWN_GEOMS, DRAWN_MATERIALS, SNAPSHOT

CAMERA = "front"
"""The package's camera for observers; `front_pixels` is that of agents with pixel observations."""
ARM = 2
"""Group of the robot arm's visual geoms."""
ROWS = {"geom_rgba": DRAWN_GEOMS, "mat_rgba": DRAWN_MATERIALS}


def drawer(
    size: int,
    full: bool = False,
    hidden: Sequence[int] = (),
    model: mujoco.MjModel | None = None,
    change: Change | None = None,
    camera: str = CAMERA,
) -> ModelDrawer:
    """Return a drawer of the scene in frames of `size` x `size` pixels (see ModelDrawer), with a new model unless one
    is given, from the package's camera or one of `VIEWS`.

    UserError if there is no OpenGL.
    """
    model = dynamics.model() if model is None else model
    view = VIEWS[camera].free() if camera in VIEWS else camera
    return ModelDrawer(model, SNAPSHOT, view, (size, size), rows=ROWS, full=full, hidden=hidden, change=change)
