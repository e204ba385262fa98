"""Draws in proportion to a power of a priority, weighed against their bias: what PER and ReLo share."""

from __future__ import annotations

import numpy as np

from guidebench.baselines.sampling import BaseSampler
from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Draw, Moment, State


class PrioritisedSampler(BaseSampler):
    """Draws transition i with probability P(i) = p_i^α / Σ p^α; the tree holds p^α (VLM-RB, app. E)."""

    def __init__(self, tree: SumTree, alpha: float, epsilon: float, importance_weights: bool) -> None:
        self.tree = tree
        self._alpha, self._epsilon, self._importance_weights = alpha, epsilon, importance_weights

    def beta(self, step: int) -> float:
        """Exponent of the importance weights at environment step `step`."""
        raise NotImplementedError

    def draw(self, count: int, moment: Moment) -> Draw:
        """Independent draws with replacement; weights float32 [S, B] with 1 the batch's largest, or None."""
        uniform = np.empty((self.tree.rows, count))
        for row, rng in enumerate(moment.rngs):
            rng.random(out=uniform[row])
        index = self.tree.sample(uniform)
        return Draw(index, self._weight(index, self.beta(moment.step)) if self._importance_weights else None)

    def _learnt(self, index: Array, magnitude: Array) -> Array:
        """Set the priorities of [S, B] by max(0, magnitude); one that is not finite leaves its transition's as it is.

        The largest finite magnitude of each seed, [S], at least 0."""
        value = np.maximum(magnitude, 0.0, dtype=np.float64)
        priority, finite = self._priority(value), np.isfinite(magnitude)
        if not finite.all():
            priority, value = np.where(finite, priority, self.tree.get(index)), np.where(finite, value, 0.0)
        self.tree.set(index, priority)
        return np.asarray(value.max(axis=1))

    def _priority(self, magnitude: Array) -> Array:
        """(magnitude + ε)^α: what the tree holds."""
        return np.asarray((magnitude + self._epsilon) ** self._alpha)

    def _weight(self, index: Array, beta: float) -> Array:
        """w_i = (1 / (N·P(i)))^β over the largest in the batch: N and Σ p cancel, which leaves (min p / p_i)^β."""
        priority = self.tree.get(index)
        weight = (priority.min(axis=1, keepdims=True) / priority) ** beta
        return np.asarray(weight, np.float32)

    def state(self, row: int) -> State:
        return {"priority": self.tree.leaves(row)}

    def load_state(self, row: int, state: State) -> None:
        self.tree.load_leaves(row, state["priority"])
