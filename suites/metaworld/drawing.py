"""Frames of a task from snapshots, pixel for pixel those of `env.render()` at full quality, upright or in the
orientation of papers' code."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from guidebench.harness.interfaces import Array, Drawer
from guidebench.suites.metaworld import CALIBRATED, MetaWorldDrawing, dynamics, perturbations
from guidebench.suites.metaworld.task import record
from guidebench.suites.mujoco.cameras import BOTH
from guidebench.suites.mujoco.drawing import ModelDrawer, SideBySide


class TaskDrawer:
    """A Drawer of one task: snapshots uint8 [L, n] -> frames uint8 [L, size, size, 3]. UserError if there is no
    OpenGL."""

    def __init__(self, name: str, how: MetaWorldDrawing) -> None:
        path = dynamics.make(name).fullpath
        # A copy, so that environments of this process do not write to it.
        model = copy.copy(dynamics.scene(path).model)
        if how.perturbation == "sprite_swap":
            perturbations.swap(model)
        elif how.perturbation == "texture":
            model = perturbations.textured(path, how.seed)
        self.snapshot = record(model)
        self._draw = ModelDrawer(model, self.snapshot, how.camera, (how.size, how.size), full=how.quality == "full")
        upwards = model.cam_mat0[model.camera(how.camera).id].reshape(3, 3)[:, 1]
        turned = how.orientation == "upright" and upwards[2] < 0
        self._rows = slice(None, None, -1 if turned or how.orientation == "mirrored" else 1)
        self._columns = slice(None, None, -1 if turned else 1)

    def __call__(self, snapshots: Array) -> Array:
        return self._draw(snapshots)[:, self._rows, self._columns]


class ByTurns:
    """A Drawer of several alternating tasks; each snapshot begins with its task's index."""

    def __init__(self, names: Sequence[str], how: MetaWorldDrawing) -> None:
        self._make: list[Callable[[], TaskDrawer]] = [lambda name=name: TaskDrawer(name, how) for name in names]  # type: ignore[misc]
        self._drawers: dict[int, TaskDrawer] = {}
        self._size = how.size

    def __call__(self, snapshots: Array) -> Array:
        frames = np.empty((len(snapshots), self._size, self._size, 3), np.uint8)
        for number in np.unique(snapshots[:, 0]).tolist():
            if number not in self._drawers:
                self._drawers[number] = self._make[number]()
            drawer, mine = self._drawers[number], snapshots[:, 0] == number
            frames[mine] = drawer(snapshots[mine, 1 : 1 + drawer.snapshot.itemsize])
        return frames


def drawer(names: Sequence[str], how: MetaWorldDrawing) -> Drawer:
    """Return the drawer for the task of these environments; of `both` cameras, its frames are twice as wide."""
    if how.camera == BOTH:
        return SideBySide(*(drawer(names, replace(how, camera=camera)) for camera in CALIBRATED[:2]))  # type: ignore[arg-type]
    return TaskDrawer(names[0], how) if len(names) == 1 else ByTurns(names, how)
