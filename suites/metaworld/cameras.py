"""Where MetaWorld's fixed cameras show points of the world, and where a task's object and its target are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.metaworld import CALIBRATED, FINGERS, dynamics
from guidebench.suites.metaworld.task import record
from guidebench.suites.mujoco import cameras

PLACES = {
    **{f"button-press{kind}": "hole" for kind in ("", "-topdown", "-topdown-wall", "-wall")},
    **{f"coffee-{kind}": "mug_goal" for kind in ("pull", "push")},
    **{f"handle-press{kind}": "goalPress" for kind in ("", "-side")},
    **{f"handle-pull{kind}": "goalPull" for kind in ("", "-side")},
    "faucet-close": "goal_close",
    "faucet-open": "goal_open",
}
"""Task -> site at which its scene marks the target; for the others it is `goal`."""
UNMARKED = ("assembly", "bin-picking", "coffee-button", "disassemble", "door-lock", "door-unlock", "sweep")
"""Tasks whose scene marks no target."""


@functools.cache
def _cameras(name: str) -> dict[str, cameras.Camera]:
    model = dynamics.make(name).model
    return {camera: cameras.of_model(model, camera) for camera in CALIBRATED}


def project(name: str, camera: str, points: Array, size: int) -> Array:
    """Return the pixels (column, row), float [n, 2], of points [n, 3] in an upright frame of the scene of a task."""
    return cameras.project(cameras.named(_cameras(name), camera), points, size)


@functools.cache
def _scene(name: str) -> Any:
    """Return an environment that is set to snapshots and takes no steps."""
    env = dynamics.make(name)
    env.begin(np.random.default_rng(0))
    return env


def located(names: Sequence[str], snapshot: Array) -> Array:
    """Return the positions of the object and of the target of the snapshot's task, metres, float64 [2, 3]; UserError
    for a task without a marked target, and for a snapshot of another task."""
    number = int(snapshot[0]) if len(names) > 1 else 0
    shot = snapshot[1:] if len(names) > 1 else snapshot
    if number >= len(names):
        raise UserError(f"a snapshot names task {number}, and there are {len(names)}")
    name = names[number]
    if name in UNMARKED:
        raise UserError(
            f"the scene of {name!r} marks no place to which its object is to be brought; choose another task"
        )
    env = _scene(name)
    layout = record(env.model)
    if len(shot) < layout.itemsize:
        raise UserError(f"a snapshot of {len(shot)} bytes is none of {name!r}, which has {layout.itemsize}")
    fields = np.frombuffer(shot[: layout.itemsize].tobytes(), layout)[0]
    for field in layout.names or ():
        target = env.data if hasattr(env.data, field) else env.model
        getattr(target, field)[:] = fields[field]
    mujoco.mj_kinematics(env.model, env.data)
    hand = env.data.body("hand").xpos + FINGERS
    thing = hand if name.startswith("reach") else np.asarray(env._get_pos_objects())[:3]
    return np.stack([thing, env.data.site(PLACES.get(name, "goal")).xpos])
