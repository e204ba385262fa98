"""Builds and steps for tests of guides. They run in one thread, as workers do: more threads change the last bits of
sums."""

import numpy as np

from guidebench.harness.interfaces import Observations, Transition
from tests.baselines.builds import build
from tests.baselines.learners.conftest import one_thread

__all__ = ["VECTOR", "build", "one_thread", "step"]
VECTOR = Observations((1,), "float32")


def step(observation: np.ndarray, following: np.ndarray) -> Transition:
    count = len(observation)
    no = np.zeros(count, bool)
    return Transition(observation, np.zeros(count, np.int64), np.zeros(count, np.float32), no, no, following,
                      np.zeros((count, 0), bool), None, no)  # fmt: skip
