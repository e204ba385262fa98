"""The chat `placebo`: answers to other messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from guidebench.harness.interfaces.questions import WritesObjects
from guidebench.harness.models.choosing import NEUTRAL, Choosing
from guidebench.harness.models.placebo import Placebo
from guidebench.harness.parts import SCHEMA, TEXT, AskingPart, CellView
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
            kinds, forms = (sets[role].kinds, sets[role].forms) if role in sets else ((), ())
            texts, objects = ({kind for kind, form in forms if form == name} for name in ("text", "object"))
            if self.answer == SCHEMA and texts and not objects:
                return (
                    f"{role}.answer=schema gives objects under a schema, and {role}.source={self.source} holds texts "
                    f"alone in the role {role!r}; set {role}.answer=text, or name a run with {role}.answer=schema"
                )
            if self.answer == TEXT and objects - texts and not _always_objects(view, role):
                return (
                    f"{role}.answer=text gives texts, and {role}.source={self.source} holds objects that were written "
                    f"under a schema in the role {role!r}; set {role}.answer=schema, or name a run with "
                    f"{role}.answer=text"
                )
            if self.calibrate and kinds and not any(f":{NEUTRAL}" in kind for kind in kinds):
                return (
                    f"{role}.calibrate=true subtracts the answers to questions without content, and {role}.source="
                    f"{self.source} holds none; name a run that was calibrated, or leave it out"
                )
        return ""


def _always_objects(view: CellView, role: str) -> bool:
    """Return whether the dialogues in a role have one form of answers, objects under a schema."""
    askers = [
        part for part in view.parts.values() if isinstance(part, AskingPart) and role in part.needs
    ]  # fmt: skip
    dialogues = [part.dialogue(view.suite, view.task, role) for part in askers]
    return all(isinstance(dialogue, WritesObjects) and dialogue.with_schemas() is dialogue for dialogue in dialogues)
