"""What a learner leaves as it is: one that keeps no column with transitions and does not ask how episodes went."""

from __future__ import annotations

from guidebench.harness.interfaces import Array, Store, TransitionColumn


class BaseLearner:
    """The hooks of a Learner that most do without."""

    columns: tuple[TransitionColumn, ...] = ()

    def ended(self, row: int, slots: Array, store: Store) -> None:
        """Nothing is written per episode."""
