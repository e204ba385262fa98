"""The calibrated cameras, where they show points of the world, and where a task's object and its target are."""

from __future__ import annotations

import functools
from typing import NamedTuple

import mujoco
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.mujoco import cameras
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.task import SNAPSHOT

FOVY = 45.0
"""Vertical field of view of the package's world, degrees."""


class View(NamedTuple):
    """Pose of one of MuJoCo's free cameras."""

    target: tuple[float, float, float]  # metres
    distance: float  # metres
    elevation: float  # degrees

    def free(self) -> mujoco.MjvCamera:
        """Return the camera that draws; it looks along -x, so that the arm faces it."""
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat[:], camera.distance, camera.elevation, camera.azimuth = (*self[:3], 180.0)
        return camera

    def camera(self) -> cameras.Camera:
        """Return the camera that projects."""
        slope = np.radians(self.elevation)
        forward = np.array([-np.cos(slope), 0.0, np.sin(slope)])
        up = (np.sin(slope), 0.0, np.cos(slope))
        position = self.target - self.distance * forward
        return cameras.towards(tuple(position), self.target, up, FOVY)


VIEWS = {"top": View((0.4, 0.0, 0.0), 1.4, -90.0), "side": View((0.4, 0.0, 0.2), 1.2, -15.0)}
"""`top` looks straight down, `side` faces the arm (choice: all objects are in both)."""
CAMERAS = {name: view.camera() for name, view in VIEWS.items()}


def project(name: str, points: Array, size: int) -> Array:
    """Return the pixels (column, row), float [n, 2], of points [n, 3] in the world (see
    `suites.mujoco.cameras.project`)."""
    return cameras.project(cameras.named(CAMERAS, name), points, size)


@functools.cache
def _scene() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = dynamics.model()
    return model, mujoco.MjData(model)


def located(task: str, snapshot: Array) -> Array:
    """Return the positions of a task's object and of its target, metres, float64 [2, 3]; UserError for a snapshot of
    another length."""
    if snapshot.shape != (SNAPSHOT.itemsize,):
        raise UserError(f"a snapshot of shape {list(snapshot.shape)} is none of ogbench_scene's, [{SNAPSHOT.itemsize}]")
    fields = np.frombuffer(snapshot.tobytes(), SNAPSHOT)[0]
    model, data = _scene()
    data.qpos[:] = fields["qpos"]
    mujoco.mj_kinematics(model, data)
    if task not in dynamics.ADDED:
        return np.stack([data.body("object_0").xpos, fields["mocap_pos"][0]])
    if task == "button":
        top = data.site("btntop_0").xpos
        return np.stack([top, top])
    slide = "drawer" if task == "drawer" else "window"
    handle = data.site(f"{slide}_handle_center").xpos.copy()
    data.joint(f"{slide}_slide").qpos[:] = dynamics.ADDED[task]["goal"][f"{slide}_pos"]
    mujoco.mj_kinematics(model, data)
    return np.stack([handle, data.site(f"{slide}_handle_center").xpos])
