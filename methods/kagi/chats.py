"""The chats that choose waypoints without a model: a hand-written one, which reads the annotated images of a prompt,
and a privileged one, which is given the positions of thing and place.

`waypoints=scripted` and `waypoints=oracle` name the chats `scripted_waypoints` and `oracle_waypoints`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.capabilities import Locates
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Suite
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit
from guidebench.methods.kagi.questions import COLOURED, WAYPOINTS

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Message
    from guidebench.harness.models.oracle import Oracle


@register.chat("scripted_waypoints")
@dataclass(frozen=True)
class ScriptedWaypoints(ModelPart):
    """Hand-written: looks in the annotated images of a prompt for the colour and the place that the instruction
    names, and writes a path from one to the other."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that it takes a thing of another colour or, where it sees none, that its path is shifted by a tile,
    drawn for each question (choice: never)."""
    malformed: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that a reply is invalid in one of six ways, drawn anew for each reply (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: as the other chats)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes a tenth of
    a second)."""

    version: ClassVar[int] = 2
    citation: ClassVar[str] = "% hand-written: it looks for the colour that an instruction names"
    backend: ClassVar[str] = "scripted"
    suites: ClassVar[tuple[str, ...]] = COLOURED
    title: ClassVar[str] = "hand-written: it looks for the colour that the instruction names"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or "": it is in another role, or the task's instruction
        names no colour that it knows. Makes the task."""
        from guidebench.methods.kagi.colours import HUES, colour_in

        if elsewhere := _elsewhere(view, self):
            return elsewhere
        try:
            instruction = view.suite.make(view.task).instruction
        except UserError:  # what this machine lacks is told by the suite itself
            return ""
        try:
            colour_in(instruction)
        except UserError:
            return (
                f"the instruction {instruction!r} is one without a known colour, by which it finds the thing to be "
                f"moved ({', '.join(HUES)}); choose another task, or {WAYPOINTS}=oracle or a model"
            )
        return ""

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.methods.kagi.scripted import ViewReader

        return ViewReader(self.malformed, self.error)


@register.chat("oracle_waypoints")
@dataclass(frozen=True)
class OracleWaypoints(ModelPart):
    """Privileged: writes a path from where the thing is to where it is to be, in the tiles and lines that a model
    chooses from, and errs at the configured rate."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that the path is shifted by a tile, drawn independently per question (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null equals 0, since an oracle answers
    immediately (choice: as the other chats)."""

    version: ClassVar[int] = 2
    citation: ClassVar[str] = "% no model, it is told where things are"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told where things are"

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether the suite says where things are and where they are to be."""
        return isinstance(suite, Locates)

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        if elsewhere := _elsewhere(view, self):
            return elsewhere
        if not isinstance(view.suite, Locates):
            return (
                f"the suite does not tell where the thing to be moved is and where it is to be (`located`); choose "
                f"bin_sorting, or another {WAYPOINTS}=…"
            )
        return ""

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that writes waypoints."""
        from guidebench.methods.kagi.oracle import PoseReader

        return PoseReader(self.error)


def _elsewhere(view: CellView, chat: ModelPart) -> str:
    """Return why a chat that chooses waypoints is not in its role, or ""."""
    asked = any(WAYPOINTS in getattr(part, "needs", ()) for part in view.parts.values())
    return (
        ""
        if asked and view[WAYPOINTS] == chat
        else f"it chooses waypoints, for KAGI's guide alone, in the role {WAYPOINTS}"
    )
