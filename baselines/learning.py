"""Base class of learners, with defaults for optional hooks."""

from __future__ import annotations

from guidebench.harness.interfaces import Array, Store, TransitionColumn


class BaseLearner:
    """A learner that adds no columns to transitions and ignores the ends of episodes."""

    columns: tuple[TransitionColumn, ...] = ()

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Do nothing."""
