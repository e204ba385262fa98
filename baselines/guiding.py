"""Base class of guides, with a default for every hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guidebench.harness.interfaces import (
    Array,
    Batch,
    Context,
    Episode,
    Learner,
    Metrics,
    Question,
    Rewarded,
    RunPhase,
    State,
    Store,
    Tensors,
    Transition,
    TransitionColumn,
)
from guidebench.harness.models.calls import Answer

if TYPE_CHECKING:
    from torch import Tensor


class BaseGuide:
    """A guide that adds no column, asks no model and remembers nothing: the learner sees the environment's own
    reward."""

    columns: tuple[TransitionColumn, ...] = ()
    wants_snapshots = False
    wants_measures = False
    wants_words = False

    def phases(self, steps: int) -> tuple[RunPhase, ...]:
        return (RunPhase("train", steps),)

    def connect(self, stores: Mapping[str, Store], rewarded: Rewarded) -> None:
        """Do nothing."""

    def observed_dataset(self, slot: int, transition: Transition, name: str, ctx: Context) -> None:
        """Do nothing."""

    def begun(self, rows: Array, store: Store, ctx: Context) -> None:
        """Do nothing."""

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Do nothing."""

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Do nothing."""

    def answered(self, answers: Sequence[tuple[Question, Answer]], store: Store, ctx: Context) -> None:
        """Do nothing."""

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> Array | int:
        """Return 0: no extra gradient steps."""
        return 0

    def shape(self, batch: Batch) -> Batch:
        return batch

    def unguided(self, batch: Batch) -> Batch:
        """Return the batch unchanged."""
        return batch

    def losses(self, batch: Tensors, networks: Any) -> Mapping[str, Tensor]:
        """Return no losses to add."""
        return {}

    def metrics(self) -> Metrics:
        return {}

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """Return None: it learns no reward."""
        return None

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Do nothing."""
