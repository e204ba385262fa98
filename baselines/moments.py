"""Running mean and variance of each seed, updated in batches."""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array, State


class Moments:
    """Mean and variance of vectors, over all that each of S seeds has seen: `mean` and `variance` float64 [S, width].

    Before a seed has seen any, its mean is 0 and its variance 1.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.count = np.zeros(rows, np.int64)
        self.mean, self._squares = np.zeros((rows, width)), np.zeros((rows, width))

    @property
    def variance(self) -> Array:
        """Mean squared distance from the mean."""
        count = self.count[:, None]
        return np.where(count > 0, self._squares / np.maximum(count, 1), 1.0)

    def add(self, row: int, values: Array) -> None:
        """Count vectors [n, width] of one seed, by joining the sums of squares of two samples (Chan et al. 1979)."""
        values = values.astype(np.float64)
        count, mean = len(values), values.mean(0)
        before, total = int(self.count[row]), int(self.count[row]) + count
        away = mean - self.mean[row]
        self._squares[row] += ((values - mean) ** 2).sum(0) + away**2 * before * count / total
        self.mean[row] += away * count / total
        self.count[row] = total

    def state(self, row: int) -> State:
        return {"count": int(self.count[row]), "mean": self.mean[row].copy(), "squares": self._squares[row].copy()}

    def load_state(self, row: int, state: State) -> None:
        self.count[row], self.mean[row], self._squares[row] = state["count"], state["mean"], state["squares"]
