"""Base class of learners, with defaults for optional hooks."""

from __future__ import annotations

from collections.abc import Sequence

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Batch, Loss, Metrics, NStep, Store, TransitionColumn


class BaseLearner:
    """A learner of single transitions that adds no columns to them and ignores the ends of episodes."""

    columns: tuple[TransitionColumn, ...] = ()
    n_step: NStep | None = None

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Do nothing."""

    def write_returns(self, row: int, slots: Array, rewards: Array, store: Store) -> None:
        """Do nothing."""

    def update_added(self, batch: Batch, active: Array, losses: Sequence[Loss]) -> Metrics:
        """Raise UserError: this learner cannot take a gradient step on added losses without its own loss."""
        who = " and ".join(loss.who for loss in losses)
        raise UserError(f"{type(self).__name__} takes no gradient step on the losses of {who} alone")
