"""What a sampler leaves as it is: one that needs no judge, keeps no columns and remembers nothing."""

from __future__ import annotations

from guidebench.harness.interfaces import Array, Difference, Metrics, Span, State, Transition, TransitionColumn, Update


class BaseSampler:
    """Every hook of a Sampler but `draw`, as one that ignores what it is told."""

    clip_length = 0
    columns: tuple[TransitionColumn, ...] = ()
    wants_reducible: Difference | None = None

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Nothing is kept of new transitions."""

    def feedback(self, index: Array, update: Update) -> None:
        """What the learner tells changes nothing."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """No judge is asked."""

    def evaluated(self, returns: Array) -> None:
        """Evaluation returns change nothing."""

    def metrics(self, step: int) -> Metrics:
        return {}

    def state(self, row: int) -> State:
        return {}

    def load_state(self, row: int, state: State) -> None:
        """Nothing to restore."""
