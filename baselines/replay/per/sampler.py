"""The sampler of prioritised experience replay: draws, importance weights and priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guidebench.baselines.prioritised import drawn, importance_weight, overwrite
from guidebench.baselines.sampling import BaseSampler
from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Draw, Metrics, Moment, Span, State, Transition, Update

if TYPE_CHECKING:
    from guidebench.baselines.replay.per import Per


class PerSampler(BaseSampler):
    """Draws transition i with P(i) = p_i^α / Σ p^α, where p_i = |δ_i| + ε for its last TD error δ_i, with importance
    weight w_i = (1 / (N·P(i)))^β / max w (Schaul et al. 2016, eqs. 1 and 2, §3.4; VLM-RB, app. E)."""

    def __init__(self, config: Per, rows: int, slots: int) -> None:
        self.config = config
        self.tree = SumTree(rows, slots)
        """p^α of each transition."""
        self._largest = np.zeros(rows)
        """Largest |δ| of each seed; 0 before the first update."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B] by P(i), and their w_i float32 [S, B], or None without importance weights."""
        index = drawn(self.tree, count, moment)
        weighs = self.config.importance_weights
        return Draw(index, importance_weight(self.tree, index, self.config.beta) if weighs else None)

    def feedback(self, index: Array, update: Update) -> None:
        """Store |δ| of TD errors [S, B]; a value that is not finite leaves its transition's priority unchanged."""
        error = np.abs(update.td_error, dtype=np.float64)
        is_finite = np.isfinite(error)
        overwrite(self.tree, index, self.priority(error), is_finite)
        np.maximum(self._largest, error.max(axis=1, initial=0.0, where=is_finite), out=self._largest)

    def added(self, index: int, live: Span, transition: Transition) -> None:
        self.tree.store(index, self.priority(self._new_error()), live)

    def priority(self, error: Array) -> Array:
        """Return p^α of absolute TD errors: (|δ| + ε)^α."""
        return np.asarray((error + self.config.epsilon) ** self.config.alpha)

    def _new_error(self) -> Array:
        """Return the |δ| assumed for a new transition, [S]; 1 under "maximum" while no error is known."""
        if self.config.new_priority == "small":
            return np.full(self.tree.rows, self.config.small_priority)
        return np.where(self._largest > 0, self._largest, 1.0)

    def metrics(self, step: int) -> Metrics:
        return {"replay/largest_td_error": self._largest.copy()}

    def state(self, row: int) -> State:
        return {"priority": self.tree.leaves(row), "largest": float(self._largest[row])}

    def load_state(self, row: int, state: State) -> None:
        self.tree.load_leaves(row, state["priority"])
        self._largest[row] = state["largest"]
