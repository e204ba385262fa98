"""How prioritised replay takes in new transitions and TD errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guidebench.baselines.prioritised import PrioritisedSampler
from guidebench.baselines.sum_tree import SumTree
from guidebench.harness.interfaces import Array, Metrics, Span, State, Transition, Update

if TYPE_CHECKING:
    from guidebench.baselines.replay.per import Per


class PerSampler(PrioritisedSampler):
    """Priority p = |δ| + ε of the last TD error (VLM-RB, app. E)."""

    def __init__(self, config: Per, rows: int, slots: int) -> None:
        super().__init__(SumTree(rows, slots), config.alpha, config.epsilon, config.importance_weights)
        self.config = config
        self._largest = np.zeros(rows)
        """Largest |δ| of each seed, 0 before any."""

    def beta(self, step: int) -> float:
        return self.config.beta

    def added(self, index: int, live: Span, transition: Transition) -> None:
        self.tree.store(index, self._priority(self._new_error()), live)

    def feedback(self, index: Array, update: Update) -> None:
        """Take over TD errors [S, B]; one that is not finite leaves its transition's priority as it is."""
        np.maximum(self._largest, self._learnt(index, np.abs(update.td_error)), out=self._largest)

    def metrics(self, step: int) -> Metrics:
        return {"replay/largest_td_error": self._largest.copy()}

    def state(self, row: int) -> State:
        return super().state(row) | {"largest": float(self._largest[row])}

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self._largest[row] = state["largest"]

    def _new_error(self) -> Array:
        """|δ| that a new transition is taken to have, [S]; 1 under "maximum" while no error is known."""
        if self.config.new_priority == "small":
            return np.full(self.tree.rows, self.config.small_priority)
        return np.where(self._largest > 0, self._largest, 1.0)
