"""What a guide is built for, and steps that it sees; as in a worker, one thread, since more change the last bits of
sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from guidebench.harness.interfaces import Actions, Build, Observations, Transition
from guidebench.harness.streams import Streams
from tests.baselines.learners.conftest import one_thread

__all__ = ["VECTOR", "build", "one_thread", "step"]
VECTOR = Observations((1,), "float32")


def build(path: Path, seeds: tuple[int, ...] = (0, 1), space: Observations = VECTOR) -> Build:
    return Build(
        seeds=seeds, observations=space, actions=Actions(count=2), horizon=100, events=(), steps=100, device="cpu",
        streams=[Streams(seed) for seed in seeds], capacity=60, slots=80,
        directories=tuple(path / f"seed-{seed}" for seed in seeds),
    )  # fmt: skip


def step(seen: np.ndarray, following: np.ndarray) -> Transition:
    count = len(seen)
    no = np.zeros(count, bool)
    return Transition(seen, np.zeros(count, np.int64), np.zeros(count, np.float32), no, no, following,
                      np.zeros((count, 0), bool), None, no)  # fmt: skip
