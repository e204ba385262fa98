"""The replay as parts see it: its columns, batches and stored transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from guidebench.harness.types import Array


@dataclass(frozen=True, slots=True)
class Span:
    """The stored transitions of a ring: `count` slots, the oldest at `start`, of `size` slots that wrap around."""

    start: int
    count: int
    size: int

    def slots(self, offsets: Array) -> Array:
        """Return the slots of the k-th oldest transitions, for each k in `offsets`."""
        return np.asarray((self.start + offsets) % self.size)


class TransitionColumn(NamedTuple):
    """A column that a guide, a sampler or a learner adds to every transition.

    A fixed column is written once, before it is first read. A mutable column (a relabelled reward) may be rewritten and
    is kept in memory and in checkpoints. A late column (a model's answer) is written once, some time after the
    transition.
    """

    name: str
    kind: Literal["fixed", "mutable", "late"]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    initial: float = 0.0
    batched: bool = True
    """Whether every batch holds the column, for a guide's column."""


class Batch(NamedTuple):
    """A batch for every seed as NumPy arrays; axis 0 is the seed, axis 1 the transition."""

    observation: Array
    action: Array
    reward: Array
    next_observation: Array
    terminated: Array
    weight: Array | None
    columns: Mapping[str, Array] = {}
    """Name -> values [S, B, …] of the guide's columns for these transitions."""
    success: Array | None = None
    """Whether the task counted as solved after the step, bool [S, B]; a guide may read it. None in a batch that was not
    drawn from a store."""
    task_reward: Array | None = None
    """The task reward, [S, B], independent of a guide's changes to `reward`; None in a batch that was not drawn from a
    store. It may be the same array as `reward`, so a guide must replace `reward` and never write into it."""
    number: Array | None = None
    """Numbers of the transitions in the order of storage, from 0, int64 [S, B] (`Store.slot`); None in a batch that was
    not drawn from a store."""
    steps: Array | None = None
    """Number m of environment steps from `observation` to `next_observation`, int64 [S, B], if the learner has an
    `n_step`: `reward` is then a discounted sum of m rewards, and the value of `next_observation` counts γ^m. None if
    every m is 1."""
    from_dataset: Array | None = None
    """Whether a transition is one of a dataset or of demonstrations, bool [S, B]; else the run collected it. None where
    an agent has one store for both."""


class Store(Protocol):
    """Access of guides and samplers to stored transitions."""

    @property
    def live(self) -> Span:
        """Return the slots that hold transitions."""

    @property
    def written(self) -> int:
        """Return the number of transitions that each seed has stored so far; they are numbered from 0."""

    def holds(self, number: Array) -> Array:
        """Return which transitions, by their numbers [n], may still be drawn, bool [n]."""

    def slot(self, number: Array) -> Array:
        """Return the slots of transitions by their numbers [n], int [n]."""

    def gather(self, index: Array) -> Batch:
        """Return the batch of transitions at slots `index` [S, B]."""

    def column(self, name: str, index: Array) -> Array:
        """Return values [S, B, …] at slots [S, B] of an added column, or of `observation`, `action`, `reward`,
        `terminated`, `success` or `ended`. A late value that is not written yet reads as the column's initial value."""

    def read(self, column: str, row: int, slots: Array) -> Array:
        """Return values [n, …] of a column at slots [n] of one seed row."""

    def write(self, column: str, row: int, slots: Array, value: Array) -> None:
        """Write values [n, …] of a column at slots [n] of one seed row."""

    def apply(self, column: str, row: int, numbers: Array, values: Array) -> None:
        """Write a late or mutable column of one seed row, addressing transitions by storage order: `numbers` int64 [n],
        the first stored transition is 0, as a question's key may hold them; `values` [n, *shape] in the column's shape
        and dtype, neither cast nor broadcast. Overwritten transitions are skipped. Raise UserError for invalid
        input."""
