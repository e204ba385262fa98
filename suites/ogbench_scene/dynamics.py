"""OGBench's scene without computations whose results are unused, and with one compiled model for all of a process's
tasks.

The dynamics are the package's own, step for step. Left out are the `info` of a step, the native reward, and the
inspection of every object before a step, of which the package uses only the buttons' positions.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import mujoco
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # dm_control looks for a display, which is not needed here
    from ogbench.manipspace.envs.scene_env import SceneEnv

from guidebench.harness.interfaces import Array
from guidebench.suites.mujoco import manipspace

ADDED = {
    "button": {
        "init": {"block_xyzs": [[0.35, 0.05, 0.02]], "button_states": [0, 0], "drawer_pos": 0.0, "window_pos": 0.0},
        "goal": {"block_xyzs": [[0.35, 0.05, 0.02]], "button_states": [1, 0], "drawer_pos": 0.0, "window_pos": 0.0},
    },
    "drawer": {
        "init": {"block_xyzs": [[0.35, 0.05, 0.02]], "button_states": [1, 1], "drawer_pos": 0.0, "window_pos": 0.0},
        "goal": {"block_xyzs": [[0.35, 0.05, 0.02]], "button_states": [1, 1], "drawer_pos": -0.16, "window_pos": 0.0},
    },
    "unlock_window": {
        "init": {"block_xyzs": [[0.4, -0.05, 0.02]], "button_states": [1, 0], "drawer_pos": 0.0, "window_pos": 0.2},
        "goal": {"block_xyzs": [[0.4, -0.05, 0.02]], "button_states": [1, 1], "drawer_pos": 0.0, "window_pos": 0.0},
    },
}
"""Start and goal of our tasks, in the package's format; each goal differs from its start in the entries of the task's
subgoals. `unlock_window` starts as the package's task 3, and ends with its button and window."""
NUMBERS = {"task3": 3, "task4": 4, "task5": 5, "button": 6, "drawer": 7, "unlock_window": 8}
"""Task numbers: the package's 1 to 5, then ours."""
WRITTEN = ("dof_damping", "geom_rgba", "mat_rgba", "site_pos")
"""Fields of the model that the package writes to: locks, colours, goal markers."""


class Dynamics(SceneEnv):  # type: ignore[misc]
    """One scene. `successes` is [cube, button 0, button 1, drawer, window] by the package's predicates."""

    successes: Array

    @property
    def buttons(self) -> Array:
        """State of each button, int [2]: 0 locks; button 0 the drawer, button 1 the window."""
        return self._cur_button_states

    @buttons.setter
    def buttons(self, states: Array) -> None:
        self._cur_button_states = states

    def set_tasks(self) -> None:
        super().set_tasks()
        for name, task in ADDED.items():
            ends: Any = {end: {key: np.array(value) for key, value in task[end].items()} for end in ("init", "goal")}
            self.task_infos.append({"task_name": name, **ends})

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """The action space, with the same seed at each access. A reset takes two random actions from this space, which
        the package never seeds, to render the goal. The solver's warm start keeps a trace of them, so without a seed
        layouts would not be reproducible."""
        return gymnasium.spaces.Box(-1.0, 1.0, (5,), np.float32, seed=0)

    def pre_step(self) -> None:
        self._prev_button_states = self._cur_button_states.copy()
        self._prev_qpos, self._prev_qvel = self._data.qpos.copy(), self._data.qvel.copy()
        self._prev_ob_info = {
            f"privileged/button_{i}_pos": self._data.joint(f"buttonbox_joint_{i}").qpos.copy() for i in range(2)
        }

    def _compute_successes(self) -> tuple[list[bool], list[bool], bool, bool]:
        cube, buttons, drawer, window = super()._compute_successes()
        self.successes = np.array([*cube, *buttons, drawer, window])
        return cube, buttons, drawer, window

    def compute_reward(self) -> float:
        return 0.0

    def get_step_info(self) -> dict[str, Any]:
        return {}

    def get_reset_info(self) -> dict[str, Any]:
        return {}


@functools.cache
def _compiled() -> Dynamics:
    """Return the scene whose model all others of this process share: it takes a second to compile and 150 MB of
    memory."""
    env = Dynamics(**{**gymnasium.spec("scene-singletask-task4-v0").kwargs, "success_timing": "post"})
    env.reset(seed=0)
    return env


def model() -> mujoco.MjModel:
    """Return a new copy of the scene's model, in the state after some reset."""
    return copy.copy(_compiled()._model)


def spec() -> mujoco.MjSpec:
    """Return the scene's description, to be changed before compilation."""
    return manipspace.spec_of(_compiled())


def make(task: str) -> Dynamics:
    """Return a new scene that shares the model; its user has to restore the fields `WRITTEN` before it moves."""
    env = copy.copy(_compiled())
    env._reward_task_id = NUMBERS[task]
    env._data = mujoco.MjData(env._model)
    env._np_random = None
    return env


def written(env: Dynamics) -> Mapping[str, Array]:
    """Return views of the fields `WRITTEN` of its model."""
    return {name: getattr(env._model, name) for name in WRITTEN}
