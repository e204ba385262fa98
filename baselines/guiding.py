"""What a guide leaves as it is: one that adds no column, asks nobody and remembers nothing."""

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
    Response,
    RunPhase,
    State,
    Store,
    Tensors,
    Transition,
    TransitionColumn,
)

if TYPE_CHECKING:
    from torch import Tensor


class BaseGuide:
    """Every hook of a Guide, as one under which the learner sees the environment's own reward."""

    columns: tuple[TransitionColumn, ...] = ()
    wants_snapshots = False

    def phases(self, steps: int) -> tuple[RunPhase, ...]:
        return (RunPhase("train", steps),)

    def observed(self, slot: int, transition: Transition, store: Store, ctx: Context) -> None:
        """Nothing is kept of new transitions."""

    def ended(self, episodes: Sequence[Episode], store: Store, ctx: Context) -> None:
        """Nothing is kept per episode."""

    def answered(self, answers: Sequence[Response], store: Store, ctx: Context) -> None:
        """Nobody is asked."""

    def before_update(self, store: Store, learner: Learner, ctx: Context) -> Array | int:
        """Nothing to train, and no further gradient step."""
        return 0

    def shape(self, batch: Batch) -> Batch:
        return batch

    def losses(self, batch: Tensors, networks: Any) -> Mapping[str, Tensor]:
        """Nothing is added to the learner's losses."""
        return {}

    def metrics(self) -> Metrics:
        return {}

    def reward(self, observation: Array, rows: Array) -> Array | None:
        """None: it learns no reward."""
        return None

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Nothing to restore."""
