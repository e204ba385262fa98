"""How ReLo takes in new transitions and the errors of both networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from baselines.prioritised import PrioritisedSampler
from baselines.sum_tree import MaxSumTree
from harness.interfaces import Array, Metrics, Span, Transition, Update

if TYPE_CHECKING:
    from baselines.replay.relo import Relo


class ReloSampler(PrioritisedSampler):
    """Priority p = max(0, |δ| − |δ̄|) + ε of the online and the target network's errors (VLM-RB, app. E)."""

    wants_reducible = True

    def __init__(self, config: Relo, rows: int, slots: int, steps: int) -> None:
        """`slots` of the ring, `steps` of the whole run."""
        self._priorities = MaxSumTree(rows, slots)
        super().__init__(self._priorities, config.alpha, config.epsilon, config.importance_weights)
        self.config = config
        self._steps = steps
        self._clipped = np.zeros(rows)
        """Share of the last batch whose reducible loss was not positive."""

    def beta(self, step: int) -> float:
        start, end = self.config.beta_start, self.config.beta_end
        return start + (end - start) * min(1.0, step / self._steps)

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """A new transition gets the largest priority of those stored (VLM-RB, app. E), 1 if there is none [choice]."""
        self.tree.forget(index, live)
        largest = self._priorities.largest
        self.tree.set_all_rows(index, np.where(largest > 0, largest, 1.0))

    def feedback(self, index: Array, update: Update) -> None:
        """Take over |δ| − |δ̄| [S, B]; one that is not finite leaves its transition's priority as it is."""
        assert update.reducible is not None, "asked for by wants_reducible"
        self._clipped = (update.reducible <= 0).mean(axis=1)
        self._learnt(index, update.reducible)

    def metrics(self, step: int) -> Metrics:
        return {"replay/beta": np.full(self.tree.rows, self.beta(step)), "replay/clipped_share": self._clipped.copy()}
