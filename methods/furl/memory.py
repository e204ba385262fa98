"""The stored frames that FuRL's losses treat as success frames and as failure frames."""

from __future__ import annotations

import numpy as np

from guidebench.baselines.agents.relay import positives
from guidebench.harness.interfaces import Array, State


class Memory:
    """The numbers of one seed's transitions, sorted by their episodes' outcome; the newest `capacity` of each kind.

    In an episode with a success, the steps up to the first success and the run of successes that follows it are
    positive, and the rest is not used. In an episode without one, all steps are negative. A positive step is valid
    if its episode had `gap` steps before it: the frame of that earlier step is its lag (FuRL, released code, whose
    index of the lag wraps at the number of valid frames instead, a slip that is not repeated here).
    """

    def __init__(self, capacity: int, gap: int) -> None:
        self._capacity, self._gap = capacity, gap
        self.positives, self.valid, self.negatives = (np.zeros(0, np.int64) for _ in range(3))
        self._first = -1
        self._successes: list[bool] = []

    @property
    def succeeded(self) -> bool:
        """Return whether any valid success frame is stored."""
        return len(self.valid) > 0

    def add(self, number: int, success: bool) -> None:
        """Add the next step of the current episode."""
        if self._first < 0:
            self._first = number
        self._successes.append(success)

    def close(self) -> None:
        """Sort the steps of the episode that has ended."""
        numbers = self._first + np.arange(len(self._successes))
        if end := positives(np.array(self._successes, bool)):
            self.positives = self._newest(self.positives, numbers[:end])
            self.valid = self._newest(self.valid, numbers[self._gap : end])
        else:
            self.negatives = self._newest(self.negatives, numbers)
        self._first, self._successes = -1, []

    def _newest(self, old: Array, new: Array) -> Array:
        return np.concatenate([old, new])[-self._capacity :]

    def positive(self, draw: Array) -> Array:
        """Return the numbers of the valid positive steps at indices `draw` [B], int64 [B]; -1 if there are none."""
        return _at(self.valid, draw)

    def lag(self, draw: Array) -> Array:
        """Return the numbers of the steps `gap` before those of `positive(draw)`, int64 [B]; -1 if there are none."""
        return np.where(self.positive(draw) < 0, -1, self.positive(draw) - self._gap)

    def negative(self, draw: Array) -> Array:
        """Return the numbers of the negative steps at indices `draw` [B], int64 [B]; -1 if there are none."""
        return _at(self.negatives, draw)

    def state(self) -> State:
        return {
            "positives": self.positives.copy(), "valid": self.valid.copy(), "negatives": self.negatives.copy(),
            "first": self._first, "successes": np.array(self._successes, bool),
        }  # fmt: skip

    def load_state(self, state: State) -> None:
        self.positives, self.valid, self.negatives = (
            state[name].copy() for name in ("positives", "valid", "negatives")
        )
        self._first, self._successes = state["first"], state["successes"].tolist()


def _at(numbers: Array, draw: Array) -> Array:
    return numbers[draw] if len(numbers) else np.full(len(draw), -1, np.int64)
