"""Frames in which objects mislead or are meaningless (following VLM-RB, app. F.3, for MiniGrid); the simulation is not
affected."""

from __future__ import annotations

import mujoco
import numpy as np

from guidebench.suites.mujoco import perturbations

ARM, LOOK = "base", "right_l0"
"""The body that carries the robot, and a body with the robot's typical appearance."""
ROOM = ("world", "tablelink", "RetainingWall", "mocap")
"""Bodies that belong neither to the robot nor to the objects that it manipulates."""
DRAWN = 3
"""Geoms of groups below this one are drawn."""


def swap(model: mujoco.MjModel) -> None:
    """Draw the objects on the table with the arm's appearance, and the arm with that of the first object."""
    is_drawn = (model.geom_group < DRAWN) & (model.geom_rgba[:, 3] > 0)
    roots = model.body_rootid[model.geom_bodyid]
    arm = is_drawn & (roots == model.body(ARM).id)
    room = np.isin(roots, [model.body(name).id for name in ROOM])
    things = is_drawn & ~room & ~arm
    looks = is_drawn & (model.geom_bodyid == model.body(LOOK).id)
    of_arm, of_things = np.flatnonzero(looks)[0], np.flatnonzero(things)[0]
    for field in ("geom_matid", "geom_rgba"):
        values = getattr(model, field)
        values[things], values[arm] = values[of_arm].copy(), values[of_things].copy()


def textured(path: str, seed: int) -> mujoco.MjModel:
    """Return the scene of that file with robot, table and objects under two-coloured noise determined by `seed`."""
    spec = mujoco.MjSpec.from_file(path)
    for geom in spec.geoms:
        if geom.rgba[3] == 0:
            geom.group = DRAWN  # the noise texture would make it visible
    return perturbations.texture(spec, seed)
