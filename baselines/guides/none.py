"""No guide: the learner sees the environment's own reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.interfaces import Batch, Build, Column, Guide, Learner, State, Store
from harness.registry import register


@register.guide("none")
@dataclass(frozen=True)
class Unguided:
    """Adds nothing to a transition and changes nothing in a batch."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% it changes nothing"
    columns: ClassVar[tuple[Column, ...]] = ()

    def spawn(self, build: Build) -> Guide:
        return self

    def before_update(self, step: int, store: Store, learner: Learner) -> None:
        """Nothing to train."""

    def shape(self, batch: Batch) -> Batch:
        return batch

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Nothing to restore."""
