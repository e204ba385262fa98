"""MetaWorld's tasks with their own stream of layouts and complete state; a single task, or several that alternate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from metaworld.policies import ENV_POLICY_MAP

from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.metaworld import HORIZON, LAYOUTS, MetaWorld, dynamics, entries

PLACED = ("qpos", "mocap_pos", "mocap_quat")
"""Fields needed for drawing besides those that the package writes to the model."""


class MetaWorldTask:
    """One task, or several that alternate. The action is float32 [4] in [-1, 1]: the hand's motion along x, y and z,
    and the gripper's closing force.

    With several tasks, each episode is a randomly drawn task in one of `LAYOUTS` layouts. A one-hot vector at the end
    of the observation identifies the task.
    """

    max_steps = HORIZON

    def __init__(self, names: Sequence[str], settings: MetaWorld) -> None:
        self._names, self._settings = tuple(names), settings
        self._envs = [dynamics.make(name) for name in names]
        self._experts = [ENV_POLICY_MAP[f"{name}-v3"]() for name in names]
        self._entries = [np.array(entries(name, settings.state, len(names) > 1)) for name in names]
        self._ids = np.eye(len(names), dtype=np.float32) if len(names) > 1 else np.zeros((1, 0), np.float32)
        self._records = [record(env.model) for env in self._envs]
        self._length = max(dtype.itemsize for dtype in self._records)
        self.reset(0)

    def reset(self, seed: int | None = None) -> Array:
        """Begin a new episode. If the layout is fixed, `seed` only selects which of several tasks it is."""
        if seed is not None:
            self._random = np.random.default_rng(int(seed))
        layout, self._number = self._random, 0
        if len(self._names) > 1:
            self._number = int(self._random.integers(len(self._names)))
            layout = np.random.default_rng(int(self._random.integers(LAYOUTS)))
        if self._settings.fixed:
            layout = np.random.default_rng(self._settings.layout)
        self.instruction = self._settings.instruction(self._names[self._number])
        self._full_observation = self._env.begin(layout)
        self._elapsed = 0
        self._success = self._any = False
        self._events = np.zeros(1, bool)
        return self._observation()

    def step(self, action: Any) -> Step:
        self._full_observation, reward, success = self._env.advance(np.asarray(action, np.float32))
        self._events = np.array([success and not self._success])
        self._success, self._any = success, self._any or success
        self._elapsed += 1
        if self._settings.reward == "sparse":
            reward = success - 1.0
        return Step(self._observation(), reward, False, self._elapsed >= HORIZON, success)

    @property
    def _env(self) -> Any:
        return self._envs[self._number]

    def _observation(self) -> Array:
        observation = self._full_observation
        if self._settings.goal == "hidden":
            observation = observation.copy()
            observation[-3:] = 0
        return np.concatenate([observation[self._entries[self._number]], self._ids[self._number]], dtype=np.float32)

    def events(self) -> Array:
        """Return bool [1]: whether the last step was a success and the one before was not."""
        return self._events

    def measures(self) -> Array:
        """Return the package's measurements after the last step, float32 [3] (`MetaWorld.measures`); zeros before an
        episode's first. Privileged: for oracles only."""
        measured: Array = self._env.measured.copy()
        return measured

    def subgoals(self) -> dict[str, bool]:
        """Return `success_any`, whether any step of the episode so far was a success; for several tasks also, under the
        name of this episode's task, whether the last step was. Privileged, for evaluation only."""
        flags = {"success_any": self._any}
        return {self._names[self._number]: self._success, **flags} if len(self._names) > 1 else flags

    def expert(self) -> Array:
        """Return the package's scripted policy's action, computed from the full current state, including the goal."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that its action will be clipped
            action = self._experts[self._number].get_action(
                self._full_observation.copy()
            )  # some policies modify their input
        return np.asarray(np.clip(action, -1, 1), np.float32)

    def snapshot(self) -> Array:
        """Return uint8 [n]: the task's index if there are several, and the bytes of its `record`."""
        env, fields = self._env, np.zeros((), self._records[self._number])
        for field in PLACED:
            fields[field] = getattr(env.data, field)
        for field, values in env.written.items():
            fields[field] = values
        content = np.frombuffer(fields.tobytes(), np.uint8)
        if len(self._names) == 1:
            return content
        shot = np.zeros(1 + self._length, np.uint8)
        shot[0], shot[1 : 1 + len(content)] = self._number, content
        return shot

    def position(self) -> None:
        """Return None: the reward is not all-or-nothing, so a repeated position is no failure."""

    def state(self) -> State:
        """Return the complete state, including the layouts of later episodes."""
        return {
            "number": self._number,
            "dynamics": self._env.state(),
            "seen": self._full_observation.copy(),
            "elapsed": self._elapsed,
            "success": self._success,
            "success_any": self._any,
            "random": self._random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for the state of another scene."""
        self._envs[number := int(state["number"])].load_state(state["dynamics"])
        self._number, self.instruction = number, self._settings.instruction(self._names[number])
        self._full_observation = np.array(state["seen"])
        self._elapsed = int(state["elapsed"])
        self._success, self._any = bool(state["success"]), bool(state["success_any"])
        self._events = np.zeros(1, bool)
        self._random = np.random.default_rng()
        self._random.bit_generator.state = state["random"]


def record(model: mujoco.MjModel) -> np.dtype[Any]:
    """Return the layout of a task's snapshot, each field under its name in MuJoCo's data or model."""
    shapes = {"qpos": (model.nq,), "mocap_pos": (model.nmocap, 3), "mocap_quat": (model.nmocap, 4)}
    shapes |= {field: getattr(model, field).shape for field in dynamics.WRITTEN}
    return np.dtype([(field, "<f8", shape) for field, shape in shapes.items()])
