"""How much the conversations about one pair of segments can take, by the longest texts that they can have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.baselines.conversing import FAULT, Misread, size
from guidebench.baselines.teachers.llm import prompts, trajectories
from guidebench.harness.interfaces import Coordinates, Surroundings
from guidebench.harness.parts import MESSAGE, Most

if TYPE_CHECKING:
    from guidebench.baselines.teachers.llm import Llm

FARTHEST = -1e7
"""A coordinate of as many digits as any has (choice: lengths are in metres)."""
STEPS = 1_000_000
"""A number of steps with as many digits as any has (choice)."""


def label(
    settings: Llm, queries: int, things: Sequence[Coordinates], goal: str, around: Surroundings | None, length: int
) -> Most:
    """Return the bound of the conversations in which labels are asked for in one order."""
    message = prompts.pair(settings, things, goal, around, *[longest_segment(things, length)] * 2)
    reminder = prompts.verdict_reminder(Misread("", ""))
    return Most(queries, 1 + settings.retries, size(message.content), len(reminder.encode()) + FAULT)


def imagined(
    settings: Llm, first: Most, things: Sequence[Coordinates], goal: str, around: Surroundings | None, length: int,
    model: Any,
) -> Most:  # fmt: skip
    """Return the bound of the calls that imagine a segment. Each continues a conversation of `first`; `model`: the
    answering model's settings."""
    start = trajectories.beginning(trajectories.named_points(things, longest_segment(things, length)))
    message = prompts.better(settings, things, goal, around, start, length, 1)
    replies = first.calls * (int(getattr(model, "max_tokens", 0)) + MESSAGE) + MESSAGE
    before = first.prompt + (first.calls - 1) * (first.reminder + MESSAGE) + replies
    reminder = prompts.trajectory_reminder(Misread("", ""), length)
    return Most(first.questions, 1 + settings.retries, before + size(message.content), len(reminder.encode()) + FAULT)


def longest_segment(things: Sequence[Coordinates], length: int) -> Any:
    """Return a segment [length, width] whose coordinates take the most text possible."""
    width = 1 + max(index for named in things for index in named.entries)
    return np.full((length, width), FARTHEST)
