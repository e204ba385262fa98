"""The target T of tasks whose instruction does not state it: the planner infers it from a sample of steps (DSADF,
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
    """Number of the step in the run."""
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
        """Return the priority of the step in the sample: rewarded or punished steps first, then steps with a caption,
        then the others; equals are ordered by a draw that depends on the step's number."""
        return 2 if self.reward else 1 if self.did else 0, chance("history", str(self.step))


class History:
    """A sample of a seed's steps, of bounded size."""

    def __init__(self, size: int) -> None:
        self._size, self._sample = size, list[tuple[tuple[int, float], Tried]]()

    def __len__(self) -> int:
        return len(self._sample)

    def add(self, tried: Tried) -> None:
        """Add a step; if there are more than `size`, drop the one of the lowest rank."""
        self._sample.append((tried.rank, tried))
        if len(self._sample) > self._size:
            self._sample.remove(min(self._sample))

    def text(self) -> str:
        """Return h_t, the text of the history: the steps of the sample in order, each on a line."""
        return "\n".join(f"Step {tried.step}. {tried}" for _, tried in self._sample)

    def state(self) -> list[list[Any]]:
        """Return everything, for a checkpoint."""
        return [[*tried] for _, tried in self._sample]

    def load_state(self, state: list[list[Any]]) -> None:
        steps = [Tried(int(step), text, action, did, float(r)) for step, text, action, did, r in state]
        self._sample = [(tried.rank, tried) for tried in steps]


def packed(target: str) -> Array:
    """Return a target in UTF-8 for a policy's file, padded with zeros, uint8 [4000]."""
    padded, content = np.zeros(ROOM, np.uint8), target.encode()
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    return padded


def unpacked(values: Array) -> str:
    """Return the target that `packed` turned into uint8 [4000]. Raise UserError for anything else."""
    try:
        target = np.asarray(values, np.uint8).tobytes().rstrip(b"\0").decode()
    except UnicodeDecodeError:
        target = "\n"
    if not target.isprintable() or len(target) > LONGEST_TARGET:
        raise UserError(
            f"the target in this policy is no line of at most {LONGEST_TARGET:,} characters; train the run, or its "
            f"pre-training stage, anew"
        )
    return target
