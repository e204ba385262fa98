"""Gymnasium's MuJoCo tasks with the simulation's exact state, and their frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, Drawer
from guidebench.suites.classic.task import ClassicTask, bare
from guidebench.suites.mujoco import state as simulation

SIZE = (480, 480)
"""Height and width of Gymnasium's frames."""


class MujocoTask(ClassicTask):
    """HalfCheetah-v5 or Hopper-v5, with Gymnasium's torques in [-1, 1]."""

    def snapshot(self) -> Array:
        """Return the positions of all joints as float64 bytes, uint8 [8 nq]."""
        return np.frombuffer(self._env.data.qpos.tobytes(), np.uint8)

    def _physics(self) -> Any:
        return simulation.state(self._env.model, self._env.data)

    def _place(self, saved: Any) -> None:
        simulation.load(self._env.model, self._env.data, saved)


def drawer(name: str) -> Drawer:
    """Return a drawer of Gymnasium's default frames: a tracking camera and MuJoCo's default appearance."""
    from guidebench.suites.mujoco.drawing import ModelDrawer

    model = bare(name).model
    return ModelDrawer(model, np.dtype([("qpos", "<f8", model.nq)]), "track", SIZE, full=True)
