"""The judge `oracle`: it reads the task's own events and errs at the configured rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from guidebench.harness.interfaces import Question, Suite
from guidebench.harness.models.oracle import Oracle
from guidebench.harness.parts import CellView, ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.judge("oracle")
@dataclass(frozen=True)
class EventOracle(ModelPart):
    """Privileged: answers yes where the task reported an event within the clip, and errs at the configured rates."""

    false_positive: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability of yes for a clip without an event, drawn independently per clip (choice: never wrong)."""
    false_negative: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability of no for a clip with an event, drawn independently per clip (choice: never wrong)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null equals 0, since an oracle answers immediately (choice:
    equal to the other judges' default, so that only the answers differ)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told the task's own events"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told the task's own events"

    @classmethod
    def suits(cls, suite: Any, task: str) -> bool:
        """Return whether events may occur in the task."""
        return bool(suite.events) and task not in suite.goalless

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if view.task in view.suite.goalless:
            return f"the task {view.task!r} has no goal, so no event occurs in it, which is all that an oracle knows"
        return "" if view.suite.events else "its tasks tell of no events, which are all that an oracle knows"

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """Return the function that answers for a clip with P(yes), 0 or 1."""
        return self._answer

    def _answer(self, question: Question, generator: np.random.Generator) -> float:
        """Return 1.0 if any of the question's bool events [m, E] happened, else 0.0, inverted with the configured error
        probability."""
        happened = bool(question.events.any())
        wrong = generator.random() < (self.false_negative if happened else self.false_positive)
        return float(happened != wrong)
