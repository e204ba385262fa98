"""What a worker and its model process tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import CallResult
from guidebench.harness.models.questions import Memory
from guidebench.harness.plan.arrays import Declared

FAREWELL = 15.0
"""Seconds that calls under way have to be answered and recorded when the process is closed: they are paid for."""


class Registered(NamedTuple):
    """A registered thing, and its settings."""

    kind: str
    name: str
    settings: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class Voice(NamedTuple):
    """How the model of the process is asked in one role."""

    model: Registered
    """The model with the settings of the role: those of its prompt and of sampling may differ between roles."""
    clip_length: int = 1
    """Frames of a clip to be judged."""
    speaker: Registered | None = None
    """Whose dialogue is led with the model; None for a judge."""
    array: Declared | None = None
    """What the dialogue ends with, where it is an array."""


class Assignment(NamedTuple):
    """What the process needs to draw and to ask."""

    suite: Registered
    task: str
    voices: Mapping[str, Voice]
    """Role -> how it is asked, for the roles that this one model has in the cell."""
    drawing: Mapping[str, Any] | None = None
    """Settings of how frames are drawn; None where nobody looks at any."""
    runs: tuple[str, ...] = ("CELL/SEED",)
    """CELL/SEED of each row."""
    models: Mapping[str, Any] = {}
    """The settings `models.*`."""
    directory: str = ""
    """The study's folder for what models answered and what it cost; "" keeps nothing."""
    device: str = "cpu"

    @property
    def model(self) -> Registered:
        """The model, with the settings of its first role."""
        return next(iter(self.voices.values())).model


class Sent(NamedTuple):
    """A question on its way to the process."""

    number: int
    role: str
    row: int
    scope: str
    ordinal: int
    step: int
    snapshots: Array | None
    content: str
    keys: int
    """How many transitions or queries the answer concerns."""


class ProcessReply(NamedTuple):
    """What the process sends back: an answer, or why there is none and will be none."""

    number: int
    told: CallResult | None = None
    drawing: float = 0.0
    """Seconds of drawing the clip."""
    memory: Memory = Memory()
    error: str = ""
    missing: str = ""
    """This answer alone is not there, in replay."""
    budget: str = ""
