"""Frames from snapshots of a MuJoCo simulation, drawn offscreen on a copy of its model.

A snapshot is a record (a structured NumPy dtype) whose fields are named as in MuJoCo's data or model: `qpos`, `mocap_*`
and any field of the model that the environment writes to and a camera sees (`body_pos`, `site_pos`, colours). Body
positions follow by kinematics. Without those model fields some pixels are wrong. Fields of other names are not drawn.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Drawer
from guidebench.suites.mujoco import gl

Change = Callable[[mujoco.MjModel], object]
"""Changes a model's appearance, given the model as a snapshot sets it."""
DEAREST = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)
"""Rendering flags that, with multisampling, take nine tenths of the time in software."""
LOOKS = ("geom_rgba", "mat_rgba", "mat_emission", "mat_specular", "mat_shininess", "mat_reflectance")
"""Fields of the model that determine appearance."""


class ModelDrawer:
    """A Drawer: snapshots uint8 [L, n] -> frames uint8 [L, height, width, 3].

    `camera` is the name of one of the model's cameras, or a free camera. If a snapshot holds only part of a model
    field, `rows` names the objects (geoms, materials, …) in it. `full` draws shadows, reflections and multisampled
    edges as MuJoCo does by default; geoms of the groups `hidden` are left out. `change` is applied to the model of
    every frame, which is a copy. UserError if there is no OpenGL.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        snapshot: np.dtype[Any],
        camera: str | mujoco.MjvCamera,
        size: tuple[int, int],
        *,
        rows: Mapping[str, Sequence[str]] | None = None,
        full: bool = False,
        hidden: Sequence[int] = (),
        change: Change | None = None,
    ) -> None:
        self._model = model = copy.copy(model)
        self._height, self._width = size
        model.vis.global_.offheight, model.vis.global_.offwidth = size
        if not full:
            model.vis.quality.offsamples = model.vis.quality.shadowsize = 0
        self._data = mujoco.MjData(model)
        self._snapshot, self._change = snapshot, change
        self._drawn_fields = [
            name for name in snapshot.names or () if hasattr(self._data, name) or hasattr(model, name)
        ]
        self._rows = {field: _ids(model, field, names) for field, names in (rows or {}).items()}
        self._looks = {field: getattr(model, field).copy() for field in LOOKS}
        self._options, self._camera = mujoco.MjvOption(), _camera(model, camera)
        self._options.geomgroup[list(hidden)] = 0
        self._scene = mujoco.MjvScene(model, maxgeom=10_000)
        if not full:
            self._scene.flags[[int(flag) for flag in DEAREST]] = 0
        self._context = gl.context(self._width, self._height)
        self._context.make_current()
        self._gl = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._gl)
        weakref.finalize(self, _free, self._context, self._gl)  # also at exit, before the library is unloaded

    def __call__(self, snapshots: Array) -> Array:
        snapshots, size = np.ascontiguousarray(snapshots, np.uint8), self._snapshot.itemsize
        if snapshots.ndim != 2 or snapshots.shape[1] != size:
            raise UserError(f"snapshots of shape {snapshots.shape} given, [L, {size}] expected")
        self._context.make_current()
        frames = np.empty((len(snapshots), self._height, self._width, 3), np.uint8)
        bottom_up = np.empty(frames.shape[1:], np.uint8)
        area = mujoco.MjrRect(0, 0, self._width, self._height)
        category = int(mujoco.mjtCatBit.mjCAT_ALL)
        for frame, snapshot in zip(frames, snapshots.view(self._snapshot)[:, 0], strict=True):
            self._show(snapshot)
            mujoco.mjv_updateScene(self._model, self._data, self._options, None, self._camera, category, self._scene)
            mujoco.mjr_render(area, self._scene, self._gl)
            mujoco.mjr_readPixels(bottom_up, None, area, self._gl)
            frame[:] = bottom_up[::-1]
        return frames

    def _show(self, snapshot: Any) -> None:
        """Set model and data to the snapshot."""
        model, data = self._model, self._data
        if self._change is not None:
            for field, pristine in self._looks.items():
                getattr(model, field)[:] = pristine
        for field in self._drawn_fields:
            owner = data if hasattr(data, field) else model
            getattr(owner, field)[self._rows.get(field, ...)] = snapshot[field]
        if self._change is not None:
            self._change(model)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        mujoco.mj_tendon(model, data)


class SideBySide:
    """A Drawer of frames uint8 [L, height, Σ width, 3]: those of several drawers, from left to right."""

    def __init__(self, *drawers: Drawer) -> None:
        self._drawers = drawers

    def __call__(self, snapshots: Array) -> Array:
        return np.concatenate([draw(snapshots) for draw in self._drawers], axis=2)


def _camera(model: mujoco.MjModel, camera: str | mujoco.MjvCamera) -> mujoco.MjvCamera:
    if not isinstance(camera, str):
        return camera
    fixed = mujoco.MjvCamera()
    fixed.type, fixed.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, model.camera(camera).id
    return fixed


def _ids(model: mujoco.MjModel, field: str, names: Sequence[str]) -> list[int]:
    """Return the rows of `geom_rgba`, `mat_rgba`, `body_pos`, … of the objects with these names."""
    named = getattr(model, {"mat": "material", "cam": "camera"}.get(kind := field.partition("_")[0], kind))
    return [named(name).id for name in names]


def _free(context: Any, drawn: Any) -> None:
    context.make_current()
    drawn.free()
    context.free()
    context.free = lambda: None  # its destructor calls it again at exit, when the library is unloaded
