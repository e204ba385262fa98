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


def label(
    settings: Llm, queries: int, things: Sequence[Coordinates], goal: str, around: Surroundings | None, length: int
) -> Most:
    """Return the bound of the conversations in which labels are asked for in one order."""
    asked = prompts.pair(settings, things, goal, around, *[_segment(things, length)] * 2)
    reminder = prompts.verdict_reminder(Misread("", ""))
    return Most(queries, 1 + settings.retries, size(asked.content), len(reminder.encode()) + FAULT)


def imagined(
    settings: Llm, first: Most, things: Sequence[Coordinates], goal: str, around: Surroundings | None, length: int,
    model: Any,
) -> Most:  # fmt: skip
    """Return the bound of the conversations in which segments are imagined, each of which goes on from one of `first`.
    `model`: that which answers."""
    start = trajectories.beginning(trajectories.named_points(things, _segment(things, length)))
    asked = prompts.better(settings, things, goal, around, start, length, 1)
    replies = first.calls * (int(getattr(model, "max_tokens", 0)) + MESSAGE) + MESSAGE
    before = first.prompt + (first.calls - 1) * (first.reminder + MESSAGE) + replies
    reminder = prompts.trajectory_reminder(Misread("", ""), length)
    return Most(first.questions, 1 + settings.retries, before + size(asked.content), len(reminder.encode()) + FAULT)


def _segment(things: Sequence[Coordinates], length: int) -> Any:
    """Return a segment [length, entries] whose coordinates take as much text as any."""
    entries = 1 + max(entry for thing in things for entry in thing.entries)
    return np.full((length, entries), FARTHEST)
