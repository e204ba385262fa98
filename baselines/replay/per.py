"""Prioritised experience replay: a transition is drawn in proportion to a power of its last TD error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from baselines.replay.sum_tree import SumTree
from harness.interfaces import Array, Build, Draw, Metrics, Sampler, Span, State
from harness.recipes import Method
from harness.registry import register
from harness.settings import Bounds, Unit, cite


@register.replay("per")
@dataclass(frozen=True)
class Per:
    """Prioritised experience replay as VLM-RB's baseline has it (Schaul et al. 2015; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    judged: ClassVar[bool] = False

    alpha: Annotated[float, Bounds(0, 1)] = 0.7
    """Exponent of the priority: 0 draws uniformly, 1 in proportion to |TD error| (VLM-RB, tables 2 and 3)."""
    beta: Annotated[float, Bounds(0, 1)] = 1.0
    """Exponent of the importance weights: 1 corrects the draws' bias in full (VLM-RB, tables 2 and 3)."""
    importance_weights: bool = True
    """Whether the loss weighs transitions against the bias of their draw (VLM-RB, table 3; false in table 2)."""
    epsilon: Annotated[float, Bounds(1e-12)] = 1e-6
    """Added to |TD error|, so that every transition can be drawn (VLM-RB, app. E)."""
    new_priority: Literal["small", "maximum"] = "small"
    """|TD error| that a new transition is taken to have: `small_priority`, or the largest that its seed has seen
    (VLM-RB, app. E.1: small; Schaul et al. 2015, algorithm 1: maximum)."""
    small_priority: Annotated[float, Bounds(0), Unit("|TD error|")] = 0.01
    """|TD error| that a new transition is taken to have under new_priority=small (choice: a hundredth of the largest
    reward; low beside an error worth replaying, yet drawn before long)."""

    def spawn(self, build: Build) -> Sampler:
        return PerSampler(self, build.rows, build.slots)


register.method("per")(
    Method(
        summary="the suite's default learner with prioritised experience replay",
        replay="per",
        on_suite={"ogbench_scene": {"replay.importance_weights": cite(False, "VLM-RB, table 2")}},
        ablations={
            "importance_weights=false": {"replay.importance_weights": False},
            "new_priority=maximum": {"replay.new_priority": "maximum"},
        },
        citation="""@inproceedings{schaul2016prioritized,
  title = {Prioritized Experience Replay},
  author = {Schaul, Tom and Quan, John and Antonoglou, Ioannis and Silver, David},
  booktitle = {International Conference on Learning Representations},
  year = {2016}
}""",
    )
)


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
