"""Gymnasium's CartPole-v1 and Acrobot-v1 with a complete state, and their frames."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import gymnasium
import numpy as np

from harness.errors import UserError
from harness.interfaces import Array, State, Step

INSTRUCTIONS = {
    "CartPole-v1": "keep the pole upright on the cart",
    "Acrobot-v1": "swing the free end of the two links above the line",
}
NOTHING = np.zeros(0, bool)


def bare(name: str, **settings: Any) -> Any:
    """The environment without Gymnasium's wrappers, whose clock `ClassicTask` keeps itself."""
    return gymnasium.make(name, disable_env_checker=True, **settings).unwrapped


class ClassicTask:
    """One environment; observations float32, reward Gymnasium's own, at most 500 steps.

    An episode is a success if its return reaches the reward threshold of Gymnasium's registry (475 for CartPole-v1,
    -100 for Acrobot-v1), which is known when it ends.
    """

    def __init__(self, name: str) -> None:
        spec = gymnasium.spec(name)
        if spec.max_episode_steps is None or spec.reward_threshold is None:
            raise UserError(f"{name} has no step limit or no reward threshold, by which success is known")
        self._env = bare(name)
        self._threshold = spec.reward_threshold
        self._elapsed = 0
        self._return = 0.0
        self.instruction = INSTRUCTIONS[name]
        self.max_steps: int = spec.max_episode_steps

    def reset(self, seed: int | None = None) -> Array:
        self._elapsed, self._return = 0, 0.0
        observation, _ = self._env.reset(seed=None if seed is None else int(seed))
        return np.asarray(observation)

    def step(self, action: Any) -> Step:
        observation, reward, terminated, _, _ = self._env.step(int(action))
        self._elapsed += 1
        self._return += float(reward)
        truncated = self._elapsed >= self.max_steps
        success = (terminated or truncated) and self._return >= self._threshold
        return Step(observation, float(reward), terminated, truncated, success)

    def events(self) -> Array:
        """bool [0]: nothing on the way is told apart."""
        return NOTHING

    def snapshot(self) -> Array:
        """uint8 [16]: the four numbers of the physical state as float32."""
        return np.asarray(self._env.state, np.float32).view(np.uint8).copy()

    def position(self) -> None:
        """None: reward is dense, so no position is a failure by itself."""

    def state(self) -> State:
        """Everything that decides the future; call after the first `reset`."""
        return {
            "physics": self._env.state.copy(),
            "elapsed": self._elapsed,
            "return": self._return,
            "random": self._env.np_random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["random"]
        self._env.reset()  # clears what Gymnasium keeps of an episode that ended
        self._env.np_random = generator
        self._env.state = np.array(state["physics"])
        self._elapsed = int(state["elapsed"])
        self._return = float(state["return"])


class ClassicDrawer:
    """Snapshots uint8 [L, 16] -> Gymnasium's own frames, uint8 [L, height, width, 3] (a Drawer).

    UserError if pygame is missing.
    """

    def __init__(self, name: str) -> None:
        if importlib.util.find_spec("pygame") is None:
            raise UserError("drawing CartPole and Acrobot needs the package pygame: pip install pygame-ce")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame opens a display even to draw into memory
        self._env = bare(name, render_mode="rgb_array")

    def __call__(self, snapshots: Array) -> Array:
        frames = []
        for physics in np.ascontiguousarray(snapshots).view(np.float32):
            self._env.state = physics.astype(np.float64)
            frames.append(self._env.render())
        return np.stack(frames)
