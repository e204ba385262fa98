"""The chat `uniform`: finds all candidates equally likely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from guidebench.harness.interfaces import Suite
from guidebench.harness.models.calls import Message
from guidebench.harness.models.choosing import Choosing
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.chat("uniform")
@dataclass(frozen=True)
class Uniform(Choosing):
    """Finds all candidates of a choice equally likely, so that a hash of the question and the run's seed decides: what
    the form of the answers and chance alone achieve."""

    answer: Literal["choice"] = "choice"
    """No other value than choice, since it writes no text (choice)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the other chats, so that only the answers differ)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% no model: equal probabilities"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("choice",)
    title: ClassVar[str] = "no model: all candidates are equally likely"
    remark: ClassVar[str] = title

    def spawn(self, suite: Suite, task: str) -> Callable[..., object]:
        """Return the code that weighs candidates; it is given neither suite nor task."""
        return EqualWeights()


class EqualWeights:
    """Gives all candidates the same weight."""

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Raise TypeError, since there is no text to write."""
        raise TypeError("the chat uniform writes no text")

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        return [1.0] * len(candidates)
