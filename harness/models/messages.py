"""Messages between a worker and its model process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import MissingCall
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.questions import Memory
from guidebench.harness.plan.arrays import Declared

FAREWELL = 15.0
"""Seconds for calls under way to be answered and recorded when the process closes, because they are paid for."""
HURRIED = 5.0
"""Seconds for calls under way if the command is being stopped or the worker has ended (heartbeats.STOPPING)."""


class RegisteredPart(NamedTuple):
    """Name and settings of a registered part."""

    kind: str
    name: str
    settings: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class Voice(NamedTuple):
    """Settings with which the model process uses its model in one role."""

    model: RegisteredPart
    """The model with the role's settings; prompt and sampling may differ between roles."""
    clip_length: int = 1
    """Frames per judged clip."""
    speaker: RegisteredPart | None = None
    """Part whose dialogue the model answers; None for a judge that gets clips."""
    array: Declared | None = None
    """Array that the dialogue returns, if it returns one."""


class Assignment(NamedTuple):
    """Everything that the model process needs to render frames and to call its model, or its hand-written models."""

    suite: RegisteredPart
    task: str
    voices: Mapping[str, Voice]
    """Role -> its use of the model, for every role that the process has in the cell."""
    drawing: Mapping[str, Any] | None = None
    """Settings for rendering frames; None if no role uses frames."""
    cell: str = "CELL"
    """Id of the cell."""
    models: Mapping[str, Any] = {}
    """The settings `models.*`."""
    directory: str = ""
    """The study's folder for recorded answers and costs; "" keeps nothing."""
    shared: bool = False
    """Whether processes on other machines write this folder too."""
    scratch: str = ""
    """Folder on this machine, if others share the study's."""
    device: str = "cpu"
    answers: bool = False
    """Whether each answer carries its records (`Answer.records`)."""

    @property
    def model(self) -> RegisteredPart:
        """The model, with the settings of its first role."""
        return next(iter(self.voices.values())).model

    @property
    def model_names(self) -> str:
        """The names of the models, as messages show them."""
        return ", ".join(dict.fromkeys(str(voice.model) for voice in self.voices.values()))


class Publish(NamedTuple):
    """A request to copy all recorded answers to storage that survives the loss of this machine. The model process
    sends it back once that is done."""

    followers: tuple[Path, ...] = ()
    """Files that exist once other processes have taken over the runs."""


class Farewell(NamedTuple):
    """The last message before the worker closes the connection."""

    keep: bool
    """Whether the worker has held its runs until now, so that their answers count."""
    followers: tuple[Path, ...] = ()
    """As in `Publish`."""
    seconds: float = FAREWELL
    """Seconds for calls under way."""


class Served(NamedTuple):
    """A question's answer from the model process, or why it is not on record; other questions can still be answered."""

    ticket: Ticket
    answer: Answer | MissingCall
    drawing: float = 0.0
    """Seconds spent rendering the clip."""
    memory: Memory = Memory()


FromProcess = Served | Publish | Exception | None
"""What the model process sends. An exception is raised in the worker; a BudgetReached only where an answer is needed.
None says that calls wait for their part of the budget."""
