"""The chat `placebo`: answers to other messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from guidebench.harness.models.choosing import NEUTRAL, Choosing
from guidebench.harness.models.placebo import Placebo
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.chat("placebo")
@dataclass(frozen=True)
class PlaceboChat(Placebo, Choosing):
    """Gives each question the answer to another question: labels, feedback, plans, actions and scores are as frequent
    as those of the model, and say nothing of what was asked. With `answer=choice` it gives the probabilities that the
    model gave the same candidates at another question, with `answer=schema` objects that fit the question's schema."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the other chats, so that only the answers differ)."""

    version: ClassVar[int] = 1
    constrains: ClassVar[bool] = True

    def fits(self, view: CellView) -> str:
        """Return why this placebo cannot be used in the given cell, or ""."""
        if reason := super().fits(view):
            return reason
        sets = self.answer_sets() or {}
        for role in [role for role, part in view.parts.items() if part == self]:
            kinds = sets[role].kinds if role in sets else ()
            if self.calibrate and kinds and not any(f":{NEUTRAL}" in kind for kind in kinds):
                return (
                    f"{role}.calibrate=true subtracts the answers to questions without content, and {role}.source="
                    f"{self.source} holds none; name a run that was calibrated, or leave it out"
                )
        return ""
