"""Base class of learners, with defaults for optional hooks."""

from __future__ import annotations

from guidebench.harness.interfaces import Array, NStep, Store, TransitionColumn


class BaseLearner:
    """A learner of single transitions that adds no columns to them and ignores the ends of episodes."""

    columns: tuple[TransitionColumn, ...] = ()
    n_step: NStep | None = None

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Do nothing."""
