"""Learners of a few seeds, and batches for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.q_learning.learner import QLearner, Terms
from guidebench.harness.interfaces import Actions, Batch, Build, Difference, Observations
from guidebench.harness.streams import Streams

RECORD = Observations(
    parts={
        "grid": Observations((3, 4, 2), "uint8", (5, 3)),
        "place": Observations((3,), "float32"),
        "frames": Observations((15, 16, 4), "uint8", stack=2),
        "word": Observations((2,), "int64", (3, 4)),
        "text": Observations((6,), "float16"),
    }
)
GRID = Observations((5, 5, 3), "uint8", (11, 6, 4))
VECTOR = Observations((2,), "float32")
MASKED = Observations(parts={"x": VECTOR, "may": Observations((2,), "uint8", (2, 2), mask=True)})
"""Two numbers, and which of two actions may be taken."""
SMALL: dict[str, Any] = {"batch_size": 16, "channels": 16, "features": 32, "hidden": (32,)}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Run in one thread, as workers do: more threads change the last bits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(
    config: Any,
    observations: Observations = VECTOR,
    actions: int = 2,
    seeds: tuple[int, ...] = (0,),
    device: str = "cpu",
    streams: Sequence[Streams] = (),
) -> Any:
    """Return the learner that `config` builds for these seeds."""
    return config.spawn(
        Build(
            seeds=seeds,
            observations=observations,
            actions=Actions(actions),
            steps=1000,
            horizon=100,
            events=(),
            device=device,
            streams=streams or [Streams(seed) for seed in seeds],
            directories=tuple(Path() for _ in seeds),
            capacity=0,
            slots=0,
        )
    )


def observed(space: Observations, rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random observations [*shape, …] of a space."""
    if space.parts:
        records = np.zeros(shape, space.numpy)
        for name, part in space.parts.items():
            records[name] = observed(part, rng, *shape)
        return records
    if space.categories:
        return rng.integers(0, space.categories, (*shape, *space.shape)).astype(space.dtype)
    if space.dtype == "uint8":
        return rng.integers(0, 256, (*shape, *space.shape)).astype(space.dtype)
    return rng.standard_normal((*shape, *space.shape)).astype(space.dtype)


def masked(vectors: np.ndarray, may: Any) -> np.ndarray:
    """Return records of `MASKED` from vectors [*shape, 2] and masks that broadcast to them."""
    records = np.zeros(vectors.shape[:-1], MASKED.numpy)
    records["x"], records["may"] = vectors, may
    return records


def unread(weight: np.ndarray) -> np.ndarray:
    """Return weights of a linear layer on `MASKED` that equal these weights [2, 2] on `VECTOR` and ignore the mask's
    four one-hot inputs."""
    return np.concatenate([weight, np.zeros((4, 2))])


def batches(observations: Observations, seed: int, size: int, actions: int, count: int) -> list[Batch]:
    """Return batches [1, size, …] of one seed, which do not depend on other seeds."""
    rng = np.random.default_rng(seed)

    def random_observations() -> np.ndarray:
        return observed(observations, rng, 1, size)

    return [
        Batch(
            observation=random_observations(),
            action=rng.integers(actions, size=(1, size)),
            reward=rng.standard_normal((1, size)).astype(np.float32),
            next_observation=random_observations(),
            terminated=rng.random((1, size)) < 0.2,
            weight=rng.random((1, size)).astype(np.float32),
        )
        for _ in range(count)
    ]


def beside(*single: Batch) -> Batch:
    """Join batches of single seeds along the axis of seeds."""

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(batch, name) for batch in single])

    return Batch(
        observation=joined("observation"),
        action=joined("action"),
        reward=joined("reward"),
        next_observation=joined("next_observation"),
        terminated=joined("terminated"),
        weight=joined("weight"),
    )


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two states are equal to the last bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))


def terms(learner: QLearner, batch: Batch, reducible: Difference = "error") -> Terms:
    """Return the terms of the loss that a learner's only seed computes for a batch."""
    online, target = learner.online.blocks[0], learner.target.blocks[0]
    return learner.td_loss(online, target, learner.sample(batch, slice(0, 1)), reducible)
