"""How prioritised replay draws, weighs and re-prioritises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from baselines.sum_tree import SumTree
from harness.interfaces import Array, Draw, Metrics, Span, State

if TYPE_CHECKING:
    from baselines.replay.per import Per


class PerSampler:
    """Draws transition i with probability P(i) = p_i / Σ p, where p = (|δ| + ε)^α (VLM-RB, app. E)."""

    clip_length = 0

    def __init__(self, config: Per, rows: int, slots: int) -> None:
        self.config = config
        self.tree = SumTree(rows, slots)
        self._largest = np.zeros(rows)
        """Largest |δ| of each seed, 0 before any."""

    def added(self, index: int, live: Span) -> None:
        self.tree.store(index, self._priority(self._new_error()), live)

    def draw(self, count: int, step: int, live: Span, rngs: Sequence[np.random.Generator]) -> Draw:
        """Independent draws with replacement; weights float32 [S, B] with 1 the batch's largest, or None."""
        mass = np.empty((self.tree.rows, count))
        for row, rng in enumerate(rngs):
            rng.random(out=mass[row])
        mass *= self.tree.total[:, None]
        index = self.tree.find(mass)
        return Draw(index, self._weight(index) if self.config.importance_weights else None)

    def feedback(self, index: Array, td_error: Array) -> None:
        """Take over TD errors [S, B]; one that is not finite leaves its transition's priority as it is."""
        error = np.abs(td_error, dtype=np.float64)
        priority = self._priority(error)
        largest = error.max(axis=1)
        if not np.isfinite(largest).all():
            finite = np.isfinite(error)
            priority = np.where(finite, priority, self.tree.get(index))
            largest = np.where(finite, error, 0.0).max(axis=1)
        self.tree.set(index, priority)
        np.maximum(self._largest, largest, out=self._largest)

    def scored(self, row: int, index: Array, score: float) -> None:
        """No judge is asked."""

    def state(self, row: int) -> State:
        return {"priority": self.tree.leaves(row), "largest": float(self._largest[row])}

    def load_state(self, row: int, state: State) -> None:
        self.tree.load_leaves(row, state["priority"])
        self._largest[row] = state["largest"]

    def evaluated(self, returns: Array) -> None:
        """Evaluation returns change nothing."""

    def metrics(self, step: int) -> Metrics:
        return {"replay/largest_td_error": self._largest.copy()}

    def _new_error(self) -> Array:
        """|δ| that a new transition is taken to have, [S]; 1 under "maximum" while no error is known."""
        if self.config.new_priority == "small":
            return np.full(self.tree.rows, self.config.small_priority)
        return np.where(self._largest > 0, self._largest, 1.0)

    def _priority(self, error: Array) -> Array:
        return np.asarray((error + self.config.epsilon) ** self.config.alpha)

    def _weight(self, index: Array) -> Array:
        """w_i = (1 / (N·P(i)))^β over the largest in the batch: N and Σ p cancel, which leaves (min p / p_i)^β."""
        priority = self.tree.get(index)
        weight = (priority.min(axis=1, keepdims=True) / priority) ** self.config.beta
        return np.asarray(weight, np.float32)
