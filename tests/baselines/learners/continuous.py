"""Learners of continuous actions, batches for them, and a task small enough to be learnt in a test."""

from pathlib import Path
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Actions, Array, Batch, Build, Observations, State, Step
from guidebench.harness.streams import Streams

SMALL: dict[str, Any] = {
    "hidden": (16, 16), "batch_size": 16, "learning_starts": 16, "ensemble": 3, "utd": 1, "actor_utd": 1,
}  # fmt: skip


def build(
    seeds: tuple[int, ...] = (0,),
    observed: int = 2,
    actions: int = 1,
    path: Path = Path(),
    steps: int = 1000,
    device: str = "cpu",
    observations: Observations | None = None,
    **more: Any,
) -> Build:
    return Build(
        seeds=seeds,
        observations=observations or Observations((observed,), "float32"),
        actions=Actions(shape=(actions,)),
        steps=steps,
        horizon=20,
        events=(),
        device=device,
        streams=[Streams(seed) for seed in seeds],
        directories=tuple(path / str(seed) for seed in seeds),
        capacity=steps,
        slots=steps + 1,
        **more,
    )


def batch(seed: int, size: int = 16, observed: int = 2, actions: int = 1) -> Batch:
    """Return random transitions [1, size, …] of one seed, which do not depend on other seeds."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return rng.standard_normal((1, size, *shape)).astype(np.float32)

    return Batch(
        observation=normal(observed),
        action=np.tanh(normal(actions)),
        reward=normal(),
        next_observation=normal(observed),
        terminated=rng.random((1, size)) < 0.2,
        weight=rng.random((1, size)).astype(np.float32),
    )


class Reach:
    """A point on a line moves to a place. Observation: (point, place); reward: minus their distance; 20 steps."""

    instruction, max_steps = "go there", 20

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.elapsed = 0
        self.observation = self.rng.uniform(-1, 1, 2).astype(np.float32)
        return self.observation.copy()

    def step(self, action: Any) -> Step:
        assert action.dtype == np.float32 and action.shape == (1,) and abs(action[0]) <= 1
        self.elapsed += 1
        self.observation[0] += 0.3 * action[0]
        distance = float(abs(self.observation[0] - self.observation[1]))
        return Step(self.observation.copy(), -distance, False, self.elapsed == 20, distance < 0.1)

    def events(self) -> Array:
        return np.zeros(0, bool)

    def snapshot(self) -> Array:
        return self.observation.view(np.uint8).copy()

    def position(self) -> None: ...

    def state(self) -> State:
        return {"seen": self.observation.copy(), "elapsed": self.elapsed, "random": self.rng.bit_generator.state}

    def load_state(self, state: State) -> None:
        self.rng = np.random.default_rng(0)
        self.rng.bit_generator.state = state["random"]
        self.observation, self.elapsed = state["seen"].copy(), int(state["elapsed"])
