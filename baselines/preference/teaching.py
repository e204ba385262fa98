"""Teachers: what they are asked about, what they say, and how one is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from guidebench.harness.interfaces import Array, Question

Outcome = Literal["labelled", "equal", "inconsistent", "unreadable", "failed", "skipped"]
"""What became of a query: a preference; no difference seen; answers that contradict each other when the order is
swapped; an answer that could not be read; no answer; a teacher that finds neither worth a look."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two segments of one seed of which a teacher says which is better."""

    row: int
    number: int
    """Of the run's queries, from 0."""
    observations: Array
    """float32 [2, H, D]: the state that each action was taken in."""
    rewards: Array
    """float32 [2, H], the task's own; only a scripted teacher may look."""
    snapshots: Array | None = None
    """uint8 [2, H, n], of a teacher that wants them."""


class Verdict(NamedTuple):
    """What a teacher says of a pair."""

    outcome: Outcome
    label: float | None = None
    """Probability that the second segment is the preferred one: 0, 1, or between; None for none."""
    kept: bool = False
    """Whether the pair is learnt from with this label."""
    imagined: Array | None = None
    """float32 [H, D]: a segment that the teacher holds to be better than the preferred one of the pair."""
    notes: Mapping[str, Any] = {}
    """More for the query's row in `labels`: `first` and `second`, what a model answered in either order (0, 1, 2),
    `retries`, `imagined`, what became of the imagined segment. Anything else is a column that the teacher declares:
    `logs = {"labels": Log("…", {"confidence": share("…", optional=True)})}`."""


class LabellingTeacher(Protocol):
    """Says at once which of two segments is better."""

    to: None
    wants_snapshots: bool

    def label(self, pair: Pair, scale: float, rng: np.random.Generator) -> Verdict:
        """`scale`: mean return of the last episodes per step, times the length of a segment; 0 before one ended."""


class AskedTeacher(Protocol):
    """Is asked in a role, and says what comes of the answer.

    Its configuration class says in `needs` whom it asks and, if that is a model, has a `dialogue`.
    """

    to: str
    wants_snapshots: bool

    def question(self, pair: Pair) -> Question: ...

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        """What the dialogue's value, None for none, says of the pair."""


Teacher = LabellingTeacher | AskedTeacher
"""Which of two segments is better. Its configuration class inherits `harness.parts.TeacherPart`; one that needs nobody
labels at once."""
