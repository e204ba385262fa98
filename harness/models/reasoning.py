"""The setting `thinking` of chats: whether a model reasons before it answers, and what is kept of its reasoning.

The reasoning is recorded with the answer (`REASONING` in the details of a reply) and is not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from guidebench.harness.parts import ModelPart
from guidebench.harness.settings import Bounds, Later, Unit

OFF: Literal["off"] = "off"
Thinking = Literal["off"] | int | None
OPENED, CLOSED = "<think>", "</think>"
"""Marks around the reasoning, as in Qwen3's and DeepSeek's templates."""
REASONING = "reasoning"
"""Name of the reasoning in the details of a reply."""
LONGEST = 60_000
"""Most bytes of reasoning that are recorded (choice: less than a record's details may have)."""


@dataclass(frozen=True, kw_only=True)
class Reasoning(ModelPart):
    """Setting of a chat whose model may reason before it answers."""

    thinking: Annotated[Literal["off"] | int | None, Bounds(1), Unit("tokens"), Later] = None
    """Whether the model reasons before it answers: `off`, or for at most so many tokens besides max_tokens. The
    reasoning is recorded and is not part of the answer. null leaves it to the model's chat template, and all that it
    writes is the answer (choice: as before there was this setting)."""

    @property
    def reasoning_tokens(self) -> int:  # type: ignore[override]
        """Most tokens of reasoning before an answer."""
        return self.thinking if isinstance(self.thinking, int) else 0


def detail(reasoning: str) -> dict[str, float | str]:
    """Return the details of a reply that hold the reasoning, cut to `LONGEST` bytes."""
    return {REASONING: reasoning.encode()[:LONGEST].decode(errors="ignore")} if reasoning else {}


def split(text: str) -> tuple[str, str]:
    """Return the reasoning at the beginning of a text, and the answer after it.

    >>> split("<think>\\nIt is dark.\\n</think>\\n\\nsleep"), split("sleep")
    (('It is dark.', 'sleep'), ('', 'sleep'))
    """
    reasoning, closed, answer = text.partition(CLOSED)
    return (reasoning.strip().removeprefix(OPENED).strip(), answer.strip()) if closed else ("", text)
