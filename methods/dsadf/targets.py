"""The target T where a task does not tell it: a sample of what was tried, from which the planner infers it (DSADF,
§5.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.conversing import chance
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.methods.dsadf.prompts import LONGEST_TARGET

ROOM = 4 * LONGEST_TARGET
"""Bytes of the longest target in UTF-8."""


class Tried(NamedTuple):
    """One step (s, a, r) of the history."""

    step: int
    """Its number in the run."""
    text: str
    """Sentences of the state before it."""
    action: str
    did: str
    """Its caption, or ""."""
    reward: float
    """The task's reward."""

    def __str__(self) -> str:
        return f"Seen: {self.text} Action: {self.action}{self.did and f' ({self.did})'}. Reward: {self.reward:g}."

    @property
    def rank(self) -> tuple[int, float]:
        """Return what is kept first: what was rewarded or punished, then what did something, then any step, equals by a
        draw that depends on the number of the step."""
        return 2 if self.reward else 1 if self.did else 0, chance("history", str(self.step))


class History:
    """A sample of a seed's steps, of bounded size."""

    def __init__(self, size: int) -> None:
        self._size, self._kept = size, list[tuple[tuple[int, float], Tried]]()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, tried: Tried) -> None:
        """Keep a step, in place of the one of the lowest rank if there are too many."""
        self._kept.append((tried.rank, tried))
        if len(self._kept) > self._size:
            self._kept.remove(min(self._kept))

    def text(self) -> str:
        """Return h_t: the steps of the sample in their order, each on a line."""
        return "\n".join(f"Step {tried.step}. {tried}" for _, tried in self._kept)

    def state(self) -> list[list[Any]]:
        """Return everything, for a checkpoint."""
        return [[*tried] for _, tried in self._kept]

    def load_state(self, state: list[list[Any]]) -> None:
        steps = [Tried(int(step), text, action, did, float(r)) for step, text, action, did, r in state]
        self._kept = [(tried.rank, tried) for tried in steps]


def packed(target: str) -> Array:
    """Return a target for a policy's file: UTF-8, filled up with zeros, uint8 [4000]."""
    found, content = np.zeros(ROOM, np.uint8), target.encode()
    found[: len(content)] = np.frombuffer(content, np.uint8)
    return found


def unpacked(values: Array) -> str:
    """Return the target that `packed` returned. Raise UserError for anything else."""
    try:
        found = np.asarray(values, np.uint8).tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError:
        found = "\n"
    if not found.isprintable() or len(found) > LONGEST_TARGET:
        raise UserError(
            f"the target in this policy is no line of at most {LONGEST_TARGET:,} characters; train the run, or its "
            f"pre-training stage, anew"
        )
    return found
