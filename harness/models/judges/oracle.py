"""The judge `oracle`: it is told the task's own events, and errs at stated rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from guidebench.harness.interfaces import Array, Suite
from guidebench.harness.models.oracle import Oracle
from guidebench.harness.parts import ModelPart, There
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.judge("oracle")
@dataclass(frozen=True)
class EventOracle(ModelPart):
    """Privileged: yes where the task itself told of an event within the clip, wrong at the rates given."""

    false_positive: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """How often a clip without an event is answered with yes, each clip on its own (choice: never wrong)."""
    false_negative: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """How often a clip with an event is answered with no, each clip on its own (choice: never wrong)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null is the same as 0, since an oracle answers at once
    (choice: as the other judges' default, so that only the answers differ)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model, it is told the task's own events"
    backend: ClassVar[str] = "oracle"
    privileged: ClassVar[bool] = True
    title: ClassVar[str] = "privileged: it is told the task's own events"

    def fits(self, there: There) -> str:
        """Why this judge cannot answer there, or ""."""
        return "" if there.suite.events else "its tasks tell of no events, which are all that an oracle knows"

    def spawn(self, suite: Suite, task: str) -> Oracle:
        """What answers for a clip: P(yes), which is 0 or 1."""
        return self._answer

    def _answer(self, events: Array, generator: np.random.Generator) -> float:
        """The truth about bool events [m, E], or its opposite if this clip's number falls below the rate."""
        happened = bool(events.any())
        wrong = generator.random() < (self.false_negative if happened else self.false_positive)
        return float(happened != wrong)
