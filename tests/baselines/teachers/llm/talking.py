"""Tasks told in words, and conversations whose replies a test decides."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.baselines.teachers.llm import Llm
from guidebench.baselines.teachers.llm.dialogue import PairDialogue
from guidebench.harness.interfaces import Array, Coordinates
from guidebench.harness.models.calls import CUT_OFF, Call, CallResult, ChatCall, Failure
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


def segment(seed: int, length: int = 4, things: Sequence[Coordinates] = PUSH, nearer: float = 0.0) -> Array:
    """A walk of everything that moves, float32 [length, 17 or 9]; `nearer`: share of the way from obj (or target) that
    tcp has already gone when it begins."""
    rng = np.random.default_rng(seed)
    width = 1 + max(max(thing.entries) for thing in things)
    found = np.full((length, width), 0.5, np.float32)
    goal = rng.uniform(0.2, 0.8, 3)
    for thing in things:
        place = goal + (0 if thing.constant else rng.uniform(-0.1, 0.1, 3))
        walk = np.zeros((length, 3)) if thing.constant else np.cumsum(rng.normal(0, 0.002, (length, 3)), axis=0)
        found[:, thing.entries] = place + walk
    towards = things[1].entries
    found[:, (0, 1, 2)] += nearer * (found[:, towards] - found[:, (0, 1, 2)])
    for thing in things:
        if thing.former:
            found[1:, thing.former] = found[:-1, thing.entries]
            found[0, thing.former] = found[0, thing.entries]
    return found


def pair(seed: int = 0, things: Sequence[Coordinates] = PUSH, length: int = 4) -> Array:
    """float32 [2, length, D]."""
    return np.stack([segment(seed, length, things), segment(seed + 1, length, things)])


def written(told: dict[str, Any]) -> str:
    return json.dumps({name: np.asarray(points).tolist() for name, points in told.items()})


CUT = "…"


class Ask:
    """Answers with the replies in turn; an exception of `Failure` is a call without an answer, and a text that ends in
    CUT was ended by the limit of tokens."""

    def __init__(self, *replies: str | Failure) -> None:
        self._replies = list(replies)
        self.calls: list[ChatCall] = []

    async def __call__(self, call: Call) -> CallResult:
        assert isinstance(call, ChatCall)
        self.calls.append(call)
        reply = self._replies.pop(0)
        if isinstance(reply, Failure):
            return CallResult(None, reply.kind)
        return CallResult(reply, detail=CUT_OFF if reply.endswith(CUT) else {})

    @property
    def done(self) -> bool:
        return not self._replies

    def asked(self, call: int) -> str:
        """The last thing that was said in a call."""
        said = self.calls[call].messages[-1].content[0]
        assert isinstance(said, str)
        return said


def talk(
    segments: Array, ask: Any, settings: Llm | None = None, things: Sequence[Coordinates] = PUSH
) -> dict[str, Any] | None:
    """What the teacher receives, as JSON carries it; a pair without a verdict counts as unanswered."""
    dialogue = PairDialogue(settings or Llm(), things, "press the button")
    content = json.loads(json.dumps({"segments": segments.tolist()}))
    found, answered = unwrap_answer(asyncio.run(dialogue(content, None, ask)))
    assert answered == (found is not None and found["outcome"] not in ("unreadable", "failed"))
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
