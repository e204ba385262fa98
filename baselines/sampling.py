"""Base class of samplers, with a default for every hook but `draw`."""

from __future__ import annotations

from guidebench.harness.interfaces import Array, Difference, Metrics, Span, State, Transition, TransitionColumn, Update


class BaseSampler:
    """A sampler without judge, columns or memory, which ignores all feedback; subclasses add `draw`."""

    clip_length = 0
    columns: tuple[TransitionColumn, ...] = ()
    wants_reducible: Difference | None = None

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Do nothing."""

    def feedback(self, index: Array, update: Update) -> None:
        """Do nothing."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """Do nothing."""

    def evaluated(self, returns: Array) -> None:
        """Do nothing."""

    def metrics(self, step: int) -> Metrics:
        return {}

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Do nothing."""
