"""The interface of teachers: pairs, verdicts and the two kinds of teachers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from guidebench.harness.interfaces import Array, Question

Outcome = Literal["labelled", "equal", "inconsistent", "unreadable", "failed", "skipped"]
"""Outcome of a query: a preference; no difference; contradictory answers when the order is swapped; an unreadable
answer; no answer; a teacher that finds neither segment worth comparing."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two segments of one seed that a teacher compares."""

    row: int
    number: int
    """Number of the query in the run, from 0."""
    observations: Array
    """float32 [2, H, D]: the state that each action was taken in."""
    rewards: Array
    """float32 [2, H], the task's own; only a scripted teacher may look."""
    snapshots: Array | None = None
    """uint8 [2, H, n], for a teacher that wants them."""


class Verdict(NamedTuple):
    """A teacher's verdict on a pair."""

    outcome: Outcome
    label: float | None = None
    """Probability that the second segment is preferred: 0, 1, or between; None without a label."""
    is_used: bool = False
    """Whether the reward is trained on the pair with this label."""
    imagined: Array | None = None
    """float32 [H, D]: an imagined segment that the teacher considers better than the preferred one of the pair."""
    notes: Mapping[str, Any] = {}
    """Further entries of the query's record in `labels`: `first` and `second`, a model's answers in either order (0, 1,
    2); `retries`; `imagined`, the outcome of the imagined segment. Any other entry is a column that the teacher
    declares: `logs = {"labels": Log("…", {"confidence": share("…", optional=True)})}`."""


class LabellingTeacher(Protocol):
    """A teacher that labels a pair immediately."""

    to: None
    wants_snapshots: bool

    def label(self, pair: Pair, scale: float, rng: np.random.Generator) -> Verdict:
        """Return the verdict. `scale` is the mean return of the last episodes per step, times the length of a segment;
        0 before one ended."""


class AskedTeacher(Protocol):
    """A teacher that sends a question in a role and turns the response into a verdict.

    Its configuration class names the role in `needs` and, if a model answers, has a `dialogue`.
    """

    to: str
    wants_snapshots: bool

    def question(self, pair: Pair) -> Question: ...

    def verdict(self, pair: Pair, value: Any) -> Verdict:
        """Return the verdict on the pair from the dialogue's value, None for no answer."""


Teacher = LabellingTeacher | AskedTeacher
"""A teacher of either kind. Its configuration class inherits `harness.parts.TeacherPart`; one without `needs` labels
immediately."""
