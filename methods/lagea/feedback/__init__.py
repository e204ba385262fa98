"""Feedback on episodes: the prompts, the form of the replies, and two hand-written models.

The chat `scripted_feedback` reads the frames of a prompt, and `oracle_feedback` is given the task's measures; both are
chosen by their short names, `feedback=scripted` and `feedback=oracle`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.capabilities import HasMeasures
from guidebench.harness.interfaces import Suite
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Message
    from guidebench.harness.models.oracle import Oracle

ROLE = "feedback"
"""Role of the chat that writes feedback."""
READ = ("near_object", "grasp_success", "obj_to_target")
"""Measures that the oracle reads."""


@register.chat("scripted_feedback")
@dataclass(frozen=True)
class ScriptedFeedback(ModelPart):
    """Hand-written: looks for MetaWorld's colours in the frames of a prompt and says what the gripper came near to."""

    malformed: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that a reply is invalid in one of five ways, drawn anew for each reply (choice: never)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: as the other chats)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the chat's process is restarted (choice: ample; an answer takes
    milliseconds)."""

    version: ClassVar[int] = 2
    citation: ClassVar[str] = "% hand-written: it looks for MetaWorld's colours"
    backend: ClassVar[str] = "scripted"
    title: ClassVar[str] = "hand-written: it looks for MetaWorld's colours"

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        return _elsewhere(view, self)

    def spawn(self, suite: Suite, task: str) -> Callable[[tuple[Message, ...]], str]:
        """Return the callable that answers. It is given neither suite nor task, only the messages of the
        conversation."""
        from guidebench.methods.lagea.feedback.scripted import FrameReader

        return FrameReader(self.malformed)


@register.chat("oracle_feedback")
@dataclass(frozen=True)
class OracleFeedback(ModelPart):
    """Privileged: writes feedback from the task's measures after each step, and errs at the configured rate."""

    error: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability that the feedback has another code than the rules give, and the outcome of that code, drawn
    independently per episode (choice: never wrong)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Environment steps between a question and the use of its answer; null equals 0, since an oracle answers
    immediately (choice: as the other chats)."""

    version: ClassVar[int] = 2
    citation: ClassVar[str] = "% no model, it is told what the task measures"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told what the task measures"

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether the task has all measures that the oracle reads (`READ`)."""
        return not _unmeasured(suite, task)

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot answer in this cell, or ""."""
        if elsewhere := _elsewhere(view, self):
            return elsewhere
        if missing := _unmeasured(view.suite, view.task):
            return (
                f"the suite does not measure {', '.join(missing)}, from which it writes feedback; choose a suite of "
                f"MetaWorld, or another feedback=…"
            )
        return ""

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that writes the feedback on an episode."""
        from guidebench.methods.lagea.feedback.oracle import MeasureReader

        assert isinstance(suite, HasMeasures), "`fits` refuses other suites"
        return MeasureReader(tuple(suite.measures(task)), self.error, suite.make(task).instruction)


def _unmeasured(suite: Any, task: str) -> list[str]:
    """Return those of the measures `READ` that a task does not have."""
    measures = suite.measures(task) if isinstance(suite, HasMeasures) else {}
    return [name for name in READ if name not in measures]


def _elsewhere(view: CellView, chat: ModelPart) -> str:
    """Return why this chat cannot be used, if the cell does not have it in the role `feedback`; else ""."""
    is_needed = any(ROLE in getattr(part, "needs", ()) for part in view.parts.values())
    return "" if is_needed and view[ROLE] == chat else "it writes feedback on episodes, for LaGEA's guide alone"
