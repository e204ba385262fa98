"""Uniform experience replay: every stored transition is as likely as any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.interfaces import Array, Build, Draw, Metrics, Sampler, Span, State
from harness.recipes import Method
from harness.registry import register


@register.replay("uer")
@dataclass(frozen=True)
class Uer:
    """Uniform experience replay (Lin 1992; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    judged: ClassVar[bool] = False

    def spawn(self, build: Build) -> Sampler:
        return UerSampler()


register.method("uer")(
    Method(
        summary="the suite's default learner with uniform experience replay",
        replay="uer",
        citation="""@article{lin1992self,
  title = {Self-Improving Reactive Agents Based on Reinforcement Learning, Planning and Teaching},
  author = {Lin, Long-Ji},
  journal = {Machine Learning},
  volume = {8},
  pages = {293--321},
  year = {1992}
}""",
    )
)


class UerSampler:
    """Draws with replacement, each of the N live transitions with probability 1/N; it remembers nothing."""

    clip_length = 0

    def added(self, index: int, live: Span) -> None:
        """The live slots come with each draw."""

    def draw(self, count: int, step: int, live: Span, rngs: Sequence[np.random.Generator]) -> Draw:
        """Slots int64 [S, B], without weights."""
        return Draw(live.slots(np.stack([rng.integers(live.count, size=count) for rng in rngs])), None)

    def feedback(self, index: Array, td_error: Array) -> None:
        """TD errors change nothing."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """No judge is asked."""

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Nothing to restore."""

    def evaluated(self, returns: Array) -> None:
        """Evaluation returns change nothing."""

    def metrics(self, step: int) -> Metrics:
        return {}
