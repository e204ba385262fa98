"""Frames whose things mislead or mean nothing (as VLM-RB, app. F.3, has for MiniGrid); the scene moves as ever."""

from __future__ import annotations

import mujoco
import numpy as np

from guidebench.suites.mujoco import perturbations

ARM, LOOK = "base", "right_l0"
"""The body that carries the robot, and one that looks as most of it does."""
ROOM = ("world", "tablelink", "RetainingWall", "mocap")
"""Bodies that are neither the robot nor what it works on."""
DRAWN = 3
"""Groups of geoms below this one are drawn."""


def swap(model: mujoco.MjModel) -> None:
    """The things on the table look as the arm does, and the arm as the first of them."""
    seen = (model.geom_group < DRAWN) & (model.geom_rgba[:, 3] > 0)
    roots = model.body_rootid[model.geom_bodyid]
    arm = seen & (roots == model.body(ARM).id)
    room = np.isin(roots, [model.body(name).id for name in ROOM])
    things = seen & ~room & ~arm
    looks = seen & (model.geom_bodyid == model.body(LOOK).id)
    of_arm, of_things = np.flatnonzero(looks)[0], np.flatnonzero(things)[0]
    for field in ("geom_matid", "geom_rgba"):
        values = getattr(model, field)
        values[things], values[arm] = values[of_arm].copy(), values[of_things].copy()


def textured(path: str, seed: int) -> mujoco.MjModel:
    """The scene of that file with robot, table and things under two-coloured noise that follows from `seed` alone."""
    spec = mujoco.MjSpec.from_file(path)
    for geom in spec.geoms:
        if geom.rgba[3] == 0:
            geom.group = DRAWN  # noise would make it visible
    return perturbations.texture(spec, seed)
