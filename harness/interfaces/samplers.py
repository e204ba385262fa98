"""Interface of samplers, which choose the stored transitions of each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from guidebench.harness.types import Array, Metrics, State

if TYPE_CHECKING:
    from guidebench.harness.interfaces.episodes import Transition
    from guidebench.harness.interfaces.learning import Difference, Update
    from guidebench.harness.interfaces.replay import Span, Store, TransitionColumn


class Moment(NamedTuple):
    """The information that a sampler may use when it draws a batch."""

    step: int
    live: Span
    rngs: Sequence[np.random.Generator]  # of each seed
    observation: Array  # [S, …], the observation that each seed acts on next
    store: Store


@dataclass(frozen=True, slots=True)
class Draw:
    """The transitions of a batch: slots int64 [S, B], and loss weights float32 [S, B] or None for all ones."""

    index: Array
    weight: Array | None


class Sampler(Protocol):
    """Chooses the stored transitions of each batch. Storage is separate; axis 0 of every array is the seed.

    Its configuration class inherits `harness.parts.ReplayPart`.
    """

    clip_length: int
    """Transitions per judged clip; 0 if the sampler needs no judge."""
    columns: tuple[TransitionColumn, ...]
    """Columns that the sampler stores with every transition."""
    wants_reducible: Difference | None
    """The form of `Update.reducible` that `feedback` reads, or None if it does not read it."""

    def added(self, index: int, live: Span, transition: Transition) -> None:
        """Receive a transition that every seed has stored at slot `index`; `live` are the slots that hold transitions
        now."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return the slots [S, count] of the next batch."""

    def feedback(self, index: Array, update: Update) -> None:
        """Receive the learner's update on the transitions at slots `index` [S, B], just learnt from."""

    def scored(self, row: int, index: Array, score: float) -> None:
        """Receive a judge's P(yes) for the transitions at slots `index` of one seed row that are still stored."""

    def evaluated(self, returns: Array) -> None:
        """Receive the mean evaluation return of each seed, [S], after an evaluation."""

    def metrics(self, step: int) -> Metrics:
        """Return metrics to log at `step`."""

    def state(self, row: int) -> State: ...

    def load_state(self, row: int, state: State) -> None: ...
