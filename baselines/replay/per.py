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
    """Prioritised experience replay as VLM-RB's baseline has it (Schaul et al. 2015; VLM-RB, appendix E)."""

    version: ClassVar[int] = 1
    judged: ClassVar[bool] = False

    alpha: Annotated[float, Bounds(0, 1)] = 0.7
    """Exponent of the priority: 0 draws uniformly, 1 in proportion to |TD error| (VLM-RB, tables 2 and 3)."""
    beta: Annotated[float, Bounds(0, 1)] = 1.0
    """Exponent of the importance weights: 1 corrects the draws' bias in full (VLM-RB, tables 2 and 3)."""
    importance_weights: bool = True
    """Whether the loss weighs transitions against the bias of their draw (VLM-RB, table 3; false in table 2)."""
    epsilon: Annotated[float, Bounds(1e-12)] = 1e-6
    """Added to |TD error|, so that every transition can be drawn (VLM-RB, appendix E)."""
    new_priority: Literal["small", "maximum"] = "small"
    """|TD error| that a new transition is taken to have: `small_priority`, or the largest this seed has seen
    (VLM-RB, E.1: small; Schaul et al. 2015, algorithm 1: maximum)."""
    small_priority: Annotated[float, Bounds(0), Unit("|TD error|")] = 0.01
    """|TD error| that a new transition is taken to have under new_priority=small: a hundredth of the largest reward,
    low beside an error worth replaying, yet enough to be drawn some ten times in a run (choice)."""

    def spawn(self, build: Build) -> Sampler:
        return PerSampler(self, build.rows, build.slots)


register.method("per")(
    Method(
        summary="the suite's default learner with prioritised experience replay",
        replay="per",
        on_suite={"ogbench_scene": {"replay.importance_weights": cite(False, "VLM-RB, table 2")}},
        ablations={
            "without importance weights": {"replay.importance_weights": False},
            "new transitions at the maximum": {"replay.new_priority": "maximum"},
        },
        citation="""@inproceedings{schaul2016prioritized,
  title = {Prioritized Experience Replay},
  author = {Schaul, Tom and Quan, John and Antonoglou, Ioannis and Silver, David},
  booktitle = {International Conference on Learning Representations},
  year = {2016},
}""",
    )
)


class PerSampler:
    """Draws i with probability P(i) = p_i / Σ p, p = (|δ| + ε)^α (VLM-RB, appendix E)."""

    clip_length = 0

    def __init__(self, config: Per, rows: int, slots: int) -> None:
        self.config = config
        self.tree = SumTree(rows, slots)
        self._largest = np.ones(rows)
        """Largest |δ| seen, 1 before any."""

    def added(self, index: int, live: Span) -> None:
        small = self.config.new_priority == "small"
        error = np.full(self.tree.rows, self.config.small_priority) if small else self._largest
        self.tree.set_all_rows(index, self._priority(error))
        forget_oldest(self.tree, index, live)

    def draw(self, count: int, step: int, live: Span, rngs: Sequence[np.random.Generator]) -> Draw:
        index = self.tree.find(masses(self.tree, count, rngs))
        return Draw(index, self._weight(index) if self.config.importance_weights else None)

    def feedback(self, index: Array, td_error: Array) -> None:
        """Take over the TD errors; one that is not finite leaves its transition's priority as it is."""
        error = np.abs(td_error, dtype=np.float64)
        priority = self._priority(error)
        finite = np.isfinite(priority)
        if not finite.all():
            priority = np.where(finite, priority, self.tree.get(index))
            error = np.where(finite, error, 0)
        self.tree.set(index, priority)
        np.maximum(self._largest, error.max(axis=1), out=self._largest)

    def scored(self, row: int, index: Array, score: float) -> None:
        """No judge is asked."""

    def state(self, row: int) -> State:
        return {"priority": self.tree.leaves(row), "largest": float(self._largest[row])}

    def load_state(self, row: int, state: State) -> None:
        self.tree.load_leaves(row, state["priority"])
        self._largest[row] = state["largest"]

    def metrics(self, step: int) -> Metrics:
        return {"replay/total_priority": self.tree.total}

    def _priority(self, error: Array) -> Array:
        return np.power(error + self.config.epsilon, self.config.alpha)

    def _weight(self, index: Array) -> Array:
        """w_i = (1 / (N·P(i)))^β over the batch's largest; N and Σ p cancel, so w_i = (min p / p_i)^β."""
        priority = self.tree.get(index)
        weight = (priority.min(axis=1, keepdims=True) / priority) ** self.config.beta
        return weight.astype(np.float32)


def masses(tree: SumTree, count: int, rngs: Sequence[np.random.Generator]) -> Array:
    """Uniform draws in [0, total) of each row, [rows, count]."""
    mass = np.empty((tree.rows, count))
    for row, rng in enumerate(rngs):
        rng.random(out=mass[row])
    mass *= tree.total[:, None]
    return mass


def forget_oldest(tree: SumTree, index: int, live: Span) -> None:
    """Let the slot before the live ones never be drawn again: if the ring is full it has just left."""
    gone = (live.start - 1) % live.size
    if gone != index:
        tree.set_all_rows(gone, 0.0)
