"""Tasks described in words, and conversations whose replies a test gives."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.baselines.teachers.llm import Llm
from guidebench.baselines.teachers.llm.dialogue import PairDialogue
from guidebench.harness.interfaces import Array, Coordinates
from guidebench.harness.models.calls import CUT_OFF, Answer, Call, ChatCall, Failure
from tests.harness.models.dialogues import unwrap_answer

TCP = Coordinates("tcp", "the tool centre point of the gripper", (0, 1, 2), (7, 8, 9))
OBJ = Coordinates("obj", "the button", (4, 5, 6), (11, 12, 13))
TARGET = Coordinates("target", "where the button is to be", (14, 15, 16), constant=True)
PUSH = (TCP, OBJ, TARGET)
"""Seventeen numbers: tcp, gripper, obj, the same of the step before, target (RL-SaLLM-F, app. B.1)."""
REACH = (
    Coordinates("tcp", "the tool centre point of the gripper", (0, 1, 2), (3, 4, 5)),
    Coordinates("target", "where it is to be", (6, 7, 8), constant=True),
)
"""Nine numbers: no object."""


def segment(seed: int, length: int = 4, coordinates: Sequence[Coordinates] = PUSH, nearer: float = 0.0) -> Array:
    """Return a random walk of everything that moves, float32 [length, 17 or 9]; `nearer`: share of the way from tcp to
    obj (or target) that tcp has covered at the start."""
    rng = np.random.default_rng(seed)
    width = 1 + max(max(thing.entries) for thing in coordinates)
    states = np.full((length, width), 0.5, np.float32)
    goal = rng.uniform(0.2, 0.8, 3)
    for thing in coordinates:
        place = goal + (0 if thing.constant else rng.uniform(-0.1, 0.1, 3))
        walk = np.zeros((length, 3)) if thing.constant else np.cumsum(rng.normal(0, 0.002, (length, 3)), axis=0)
        states[:, thing.entries] = place + walk
    towards = coordinates[1].entries
    states[:, (0, 1, 2)] += nearer * (states[:, towards] - states[:, (0, 1, 2)])
    for thing in coordinates:
        if thing.former:
            states[1:, thing.former] = states[:-1, thing.entries]
            states[0, thing.former] = states[0, thing.entries]
    return states


def pair(seed: int = 0, coordinates: Sequence[Coordinates] = PUSH, length: int = 4) -> Array:
    """Return two segments, float32 [2, length, D]."""
    return np.stack([segment(seed, length, coordinates), segment(seed + 1, length, coordinates)])


def as_json(trajectory: dict[str, Any]) -> str:
    """Return a trajectory of arrays as JSON text."""
    return json.dumps({name: np.asarray(points).tolist() for name, points in trajectory.items()})


CUT = "…"


class Ask:
    """A model that answers with these replies in turn. A `Failure` is a call without an answer; a text that ends in CUT
    was ended by the limit of tokens."""

    def __init__(self, *replies: str | Failure) -> None:
        self._replies = list(replies)
        self.calls: list[ChatCall] = []

    async def __call__(self, call: Call) -> Answer:
        assert isinstance(call, ChatCall)
        self.calls.append(call)
        reply = self._replies.pop(0)
        if isinstance(reply, Failure):
            return Answer(None, reply.kind)
        return Answer(reply, detail=CUT_OFF if reply.endswith(CUT) else {})

    @property
    def done(self) -> bool:
        return not self._replies

    def last_text(self, call: int) -> str:
        """Return the last message of a call."""
        text = self.calls[call].messages[-1].content[0]
        assert isinstance(text, str)
        return text


def talk(
    segments: Array, ask: Any, settings: Llm | None = None, coordinates: Sequence[Coordinates] = PUSH
) -> dict[str, Any] | None:
    """Return what the teacher receives, after a round trip through JSON; a pair without a verdict counts as
    unanswered."""
    dialogue = PairDialogue(settings or Llm(), coordinates, "press the button")
    content = json.loads(json.dumps({"segments": segments.tolist()}))
    verdict, answered = unwrap_answer(asyncio.run(dialogue(content, None, ask)))
    assert answered == (verdict is not None and verdict["outcome"] not in ("unreadable", "failed"))
    return json.loads(json.dumps(verdict))  # type: ignore[no-any-return]
