"""The questions to the success classifier: of each judged state of an episode, whether the instruction is carried out.

One frame is one call, so that any judge can be the classifier. Where the consensus is asked for, four prompts of other
words must all be answered with yes (KAGI, §IV-D).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec, Question, Unusable
from guidebench.harness.models.calls import Call, CallResult, JudgeCall
from guidebench.harness.models.prompts import CLOSING

ROLE = "classifier"
CLASSIFIED = ArraySpec("classified")
"""The answer about an episode: for each of its judged states P(success), or `UNANSWERED`."""
UNANSWERED = -1.0
"""Stands in an answer for a state of which the model gave no usable judgement. It lies below every threshold, so that
such a state earns nothing (choice: a false success is what learning exploits; KAGI, §IV-D)."""
FRAMES = 500
"""Most judged states of one question (choice: the longest episodes among the suites that project)."""
PROMPTS = 4
"""Prompts of a consensus (KAGI, §IV-D)."""
ONE_VIEW = "The picture shows a robot's gripper at work."
TWO_VIEWS = "The picture joins two views of one moment: from above, and next to it from across the table."
SENTENCES = (
    re.compile(r"(?:put|place) (?P<thing>the .+?) (?P<how>into|in|onto|on) (?P<place>the .+)"),
    re.compile(r"take (?P<thing>the .+?) out of .+? and put it (?P<how>into|in|onto|on) (?P<place>the .+)"),
    re.compile(r"move (?P<thing>the .+?) (?P<how>to) (?P<place>the .+)"),
)
"""Instructions that say which thing is to be where; others are quoted as they are."""
LIES: Mapping[str, str] = {"into": "in", "in": "in", "onto": "on", "on": "on", "to": "at"}


def question(row: int, keys: Array, snapshots: Array, events: Array, success: Array, instruction: str) -> Question:
    """Return the question about m judged states of one episode of a seed row.

    `keys` int64 [m], the stored transitions that lead to the states; `snapshots` uint8 [m, n] and `events` bool [m, E]
    of these transitions; `success` bool [m], whether the task counts as solved in each state, which is sent to an
    oracle alone. UserError for other lengths.
    """
    lengths = {len(each) for each in (keys, snapshots, events, success)}
    if len(lengths) > 1 or not len(keys):
        raise UserError(
            f"a question to the {ROLE} has {len(keys)} keys, {len(snapshots)} snapshots, {len(events)} events and "
            f"{len(success)} successes; give one of each for every judged state, of which there is at least one"
        )
    truth = np.asarray(success, np.float32)[:, None]
    content = json.dumps({"instruction": instruction})
    return Question(row, keys, snapshots, np.asarray(events, bool), content, ROLE, measures=truth)


def prompts(instruction: str, joined: bool) -> list[str]:
    """Return `PROMPTS` prompts that ask in different words whether an instruction has been carried out; each ends with
    the form of the answer. `joined`: whether the frame shows two views side by side."""
    told = " ".join(instruction.split()).rstrip(".")
    for sentence in SENTENCES:
        if found := sentence.fullmatch(told):
            thing, where = found["thing"], f"{LIES[found['how']]} {found['place']}"
            asked = (
                f"Is {thing} {where}, and has the gripper let go of it?",
                f"Has {thing} been moved, so that it now lies {where}?",
                f"Look for {thing}. Does it rest {where}, with no gripper closed around it?",
                f'The robot was told: "{told}". Has it finished this?',
            )
            break
    else:
        asked = (
            f'The robot was told: "{told}". Has it finished this?',
            f'Does the picture show the state of things that "{told}" asks for?',
            f'The task is: "{told}". Is nothing of it left to do?',
            f'Would a person who checks the result of "{told}" call it a success?',
        )
    view = TWO_VIEWS if joined else ONE_VIEW
    return [f"{view} {each} {CLOSING}" for each in asked]


class SuccessDialogue:
    """One call per judged state, or, with the consensus, four (a Dialogue)."""

    def __init__(self, consensus: bool, frames: int = FRAMES) -> None:
        """`frames`: most judged states of one question."""
        self._count = PROMPTS if consensus else 1
        self.calls = frames * self._count

    async def __call__(
        self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]
    ) -> Array | Unusable | None:
        """Return P(success) of each of the frames, uint8 [L, height, width, 3], float32 [L]: the only prompt's P, or
        the least of those of all prompts, which is 1/2 or more where all are (choice). A state with a failed call is
        `UNANSWERED`; `Unusable` with the others if some are, since the guide goes on with its fallback there, and None
        if all are. `content`: {"instruction": text}."""
        assert frames is not None, "a judged episode has frames"
        joined = frames.shape[2] == 2 * frames.shape[1]
        asked = prompts(content["instruction"], joined)[: self._count]
        calls = [JudgeCall(frame[None], prompt) for frame in frames for prompt in asked]
        told = await asyncio.gather(*(ask(call) for call in calls))
        found = least([None if each.failure else each.value for each in told], self._count)
        unanswered = found == UNANSWERED
        if unanswered.all():
            return None
        return Unusable(found) if unanswered.any() else found


def least(values: Sequence[float | None], count: int) -> Array:
    """Return the least of every `count` successive values, float32, or `UNANSWERED` where one of them is None."""
    groups = [values[first : first + count] for first in range(0, len(values), count)]
    return np.array(
        [UNANSWERED if None in group else min(each for each in group if each is not None) for group in groups],
        np.float32,
    )
