"""ReLo's sampler: draws, importance weights and priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from guidebench.baselines.prioritised import drawn, importance_weight, overwrite
from guidebench.baselines.sampling import BaseSampler
from guidebench.baselines.sum_tree import MaxSumTree
from guidebench.harness.interfaces import Array, Draw, Metrics, Moment, Span, State, Transition, Update

if TYPE_CHECKING:
    from guidebench.baselines.replay.relo import Relo


class ReloSampler(BaseSampler):
    """Draws transition i with P(i) = p_i^α / Σ p^α, where p_i = max(0, d_i) + ε and d_i is the online network's error
    minus the target network's, with importance weight w_i = (1 / (N·P(i)))^β / max w (VLM-RB, app. E)."""

    def __init__(self, config: Relo, rows: int, slots: int, steps: int) -> None:
        """`slots` is the size of the ring, `steps` the length of the whole run."""
        self.config = config
        self.wants_reducible = config.difference
        self.tree = MaxSumTree(rows, slots)
        """p^α of each transition."""
        self._steps = steps
        self._clipped = np.zeros(rows)
        """Share of the last batch whose reducible loss was not positive."""
        self._floor = float(self.priority(np.zeros(())))
        """Priority p^α of such a transition: the smallest possible."""
        self._at_floor = np.zeros((rows, slots), bool)
        self._floor_count = np.zeros(rows, np.int64)
        self._stored = 0

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B] by P(i), and their w_i float32 [S, B], or None without importance weights."""
        index = drawn(self.tree, count, moment)
        weighs = self.config.importance_weights
        return Draw(index, importance_weight(self.tree, index, self.beta(moment.step)) if weighs else None)

    def beta(self, step: int) -> float:
        """Return β at environment step `step`: linear over the run."""
        start, end = self.config.beta_start, self.config.beta_end
        return start + (end - start) * min(1.0, step / self._steps)

    def feedback(self, index: Array, update: Update) -> None:
        """Store d of the reducible losses [S, B]; a value that is not finite leaves its transition's priority
        unchanged."""
        assert update.reducible is not None, "asked for by wants_reducible"
        difference = update.reducible
        self._clipped = (difference <= 0).mean(axis=1)
        overwrite(self.tree, index, self.priority(difference), np.isfinite(difference))
        self._note(index)

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Give a new transition the largest priority of those stored (VLM-RB, app. E), or 1 if there is none
        [choice]."""
        self.tree.forget(index, live)
        largest = self.tree.largest
        self.tree.set_all_rows(index, np.where(largest > 0, largest, 1.0))
        self._stored = live.count
        evicted = (live.start - 1) % live.size
        self._note(np.full((self.tree.rows, 2), (evicted, index), np.int64))

    def priority(self, difference: Array) -> Array:
        """Return p^α of differences: (max(0, d) + ε)^α."""
        return np.asarray((np.maximum(difference, 0.0, dtype=np.float64) + self.config.epsilon) ** self.config.alpha)

    def _note(self, index: Array) -> None:
        """Record whether the transitions in slots [S, B] currently have the smallest priority."""
        priority = self.tree.get(index)
        _count(self._at_floor, self._floor_count, index, (priority > 0) & (priority <= self._floor))

    def metrics(self, step: int) -> Metrics:
        return {
            "replay/beta": np.full(self.tree.rows, self.beta(step)),
            "replay/clipped_share": self._clipped.copy(),
            "replay/floor_share": self._floor_count / max(1, self._stored),
        }

    def state(self, row: int) -> State:
        return {"priority": self.tree.leaves(row)}

    def load_state(self, row: int, state: State) -> None:
        leaves = state["priority"]
        self.tree.load_leaves(row, leaves)
        self._at_floor[row] = (leaves > 0) & (leaves <= self._floor)
        self._floor_count[row] = self._at_floor[row].sum()
        self._stored = int((leaves > 0).sum())


@njit(cache=True)
def _count(marked: Array, count: Array, index: Array, value: Array) -> None:
    """Set the marks of slots [rows, B] to `value` and update the count of marked slots [rows]; slots may repeat."""
    for row in range(len(index)):
        for place in range(index.shape[1]):
            slot = index[row, place]
            count[row] += int(value[row, place]) - int(marked[row, slot])
            marked[row, slot] = value[row, place]
