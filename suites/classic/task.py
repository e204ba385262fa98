"""Gymnasium's classic control tasks with their complete state, and their frames."""

from __future__ import annotations

import importlib.util
import math
import os
from typing import Any

import gymnasium
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State, Step

INSTRUCTIONS = {
    "CartPole-v1": "keep the pole upright on the cart",
    "Acrobot-v1": "swing the free end of the two links above the line",
    "Pendulum-v1": "swing the pendulum up and keep it upright",
    "HalfCheetah-v5": "run forward as fast as possible",
    "Hopper-v5": "hop forward as fast as possible without falling",
}
NOTHING = np.zeros(0, bool)


def bare(name: str, **settings: Any) -> Any:
    """Return the environment without Gymnasium's wrappers; `ClassicTask` counts the steps itself."""
    return gymnasium.make(name, disable_env_checker=True, **settings).unwrapped


class ClassicTask:
    """One environment with float32 observations, and Gymnasium's own reward and horizon.

    A continuous action is float [A] in [-1, 1], rescaled to the range of Gymnasium's. An episode is a success if its
    return at the end reaches the reward threshold of Gymnasium's registry (475 for CartPole-v1, -100 for Acrobot-v1);
    without a threshold (Pendulum-v1), no episode is one.
    """

    def __init__(self, name: str) -> None:
        spec = gymnasium.spec(name)
        if spec.max_episode_steps is None:
            raise UserError(f"{name} has no step limit in Gymnasium's registry; its episodes would not end")
        self._env = bare(name)
        self._threshold = math.inf if spec.reward_threshold is None else spec.reward_threshold
        self._elapsed = 0
        self._return = 0.0
        self.instruction = INSTRUCTIONS[name]
        self.max_steps: int = spec.max_episode_steps
        space = self._env.action_space
        self._range = None
        if isinstance(space, gymnasium.spaces.Box):
            self._range = (space.high + space.low) / 2, (space.high - space.low) / 2

    def reset(self, seed: int | None = None) -> Array:
        self._elapsed, self._return = 0, 0.0
        observation, _ = self._env.reset(seed=None if seed is None else int(seed))
        return np.asarray(observation, np.float32)

    def step(self, action: Any) -> Step:
        observation, reward, terminated, _, _ = self._env.step(self._scaled(action))
        self._elapsed += 1
        self._return += float(reward)
        truncated = self._elapsed >= self.max_steps
        success = (terminated or truncated) and self._return >= self._threshold
        return Step(np.asarray(observation, np.float32), float(reward), bool(terminated), truncated, success)

    def _scaled(self, action: Any) -> Any:
        """Return the action in the range of Gymnasium's environment."""
        if self._range is None:
            return int(action)
        centre, half = self._range
        return centre + half * np.asarray(action, np.float32)

    def events(self) -> Array:
        """Return bool [0]: the suite has no events."""
        return NOTHING

    def snapshot(self) -> Array:
        """Return the physical state as float32 bytes: uint8 [16], or [12] for Pendulum."""
        return np.asarray(self._physics(), np.float32).view(np.uint8).copy()

    def position(self) -> None:
        """Return None: the reward is dense, so no repeated position is a failure."""

    def state(self) -> State:
        """Return the complete state; call after the first `reset`."""
        return {
            "physics": self._physics(),
            "elapsed": self._elapsed,
            "return": self._return,
            "random": self._env.np_random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["random"]
        self._env.reset()  # clears what Gymnasium keeps of a finished episode
        self._env.np_random = generator
        self._place(state["physics"])
        self._elapsed = int(state["elapsed"])
        self._return = float(state["return"])

    def _physics(self) -> Any:
        return physics(self._env)

    def _place(self, saved: Any) -> None:
        place(self._env, saved)


def physics(env: Any) -> Array:
    """Return the physical state, [4]; for Pendulum angle, speed and last torque, which is drawn (NaN before a step),
    [3]."""
    if env.spec.id != "Pendulum-v1":
        return np.array(env.state)
    return np.array([*env.state, np.nan if env.last_u is None else env.last_u])


def place(env: Any, saved: Array) -> None:
    """Set an environment, after a reset, to a state returned by `physics`."""
    env.state = np.array(saved[:2] if env.spec.id == "Pendulum-v1" else saved)
    if env.spec.id == "Pendulum-v1":
        env.last_u = None if np.isnan(saved[2]) else saved[2]


class ClassicDrawer:
    """A Drawer: snapshots uint8 [L, n] -> Gymnasium's own frames, uint8 [L, height, width, 3].

    UserError if pygame is missing.
    """

    def __init__(self, name: str) -> None:
        if importlib.util.find_spec("pygame") is None:
            raise UserError(f"drawing {name} needs the package pygame: pip install pygame-ce")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame opens a display even to draw into memory
        self._env = bare(name, render_mode="rgb_array")
        self._env.reset()

    def __call__(self, snapshots: Array) -> Array:
        frames = []
        for saved in np.ascontiguousarray(snapshots).view(np.float32):
            place(self._env, saved.astype(np.float64))
            frames.append(self._env.render())
        return np.stack(frames)
