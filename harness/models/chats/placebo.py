"""The chat `placebo`: answers to other messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from guidebench.harness.models.placebo import Placebo
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.chat("placebo")
@dataclass(frozen=True)
class PlaceboChat(Placebo):
    """Gives each question the answer to another question: labels, feedback, plans, actions and scores are as frequent
    as those of the model, and say nothing of what was asked."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the other chats, so that only the answers differ)."""

    version: ClassVar[int] = 1
