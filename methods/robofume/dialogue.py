"""The dialogue with the success classifier: is the instruction carried out in each judged state of an episode?

One frame is one call, so that any judge can be the classifier. With the consensus, four prompts in different words must
all be answered with yes (KAGI, §IV-D).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec, Question, Unusable
from guidebench.harness.models.calls import AskModel, JudgeCall
from guidebench.harness.models.prompts import CLOSING

ROLE = "classifier"
CLASSIFIED = ArraySpec("classified")
"""The answer about an episode: for each of its judged states P(success), or `UNANSWERED`."""
UNANSWERED = -1.0
"""The value in an answer for a state without a usable judgement. It is below every threshold, so that such a state
earns nothing (choice: a false success is what learning exploits; KAGI, §IV-D)."""
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
"""Patterns of instructions that name a thing and its place; other instructions are quoted as they are."""
LIES: Mapping[str, str] = {"into": "in", "in": "in", "onto": "on", "on": "on", "to": "at"}


def question(row: int, keys: Array, snapshots: Array, events: Array, success: Array, instruction: str) -> Question:
    """Return the question about m judged states of one episode of a seed row.

    `keys` int64 [m], the stored transitions that lead to the states; `snapshots` uint8 [m, n] and `events` bool [m, E]
    of these transitions; `success` bool [m], whether the task counts as solved in each state, which is sent to an
    oracle alone. UserError for other lengths.
    """
    lengths = {len(column) for column in (keys, snapshots, events, success)}
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
    task = " ".join(instruction.split()).rstrip(".")
    for sentence in SENTENCES:
        if match := sentence.fullmatch(task):
            thing, place = match["thing"], f"{LIES[match['how']]} {match['place']}"
            questions = (
                f"Is {thing} {place}, and has the gripper let go of it?",
                f"Has {thing} been moved, so that it now lies {place}?",
                f"Look for {thing}. Does it rest {place}, with no gripper closed around it?",
                f'The robot was told: "{task}". Has it finished this?',
            )
            break
    else:
        questions = (
            f'The robot was told: "{task}". Has it finished this?',
            f'Does the picture show the state of things that "{task}" asks for?',
            f'The task is: "{task}". Is nothing of it left to do?',
            f'Would a person who checks the result of "{task}" call it a success?',
        )
    view = TWO_VIEWS if joined else ONE_VIEW
    return [f"{view} {wording} {CLOSING}" for wording in questions]


class SuccessDialogue:
    """A dialogue with one call per judged state, or four with the consensus."""

    def __init__(self, consensus: bool, frames: int = FRAMES) -> None:
        """`frames`: most judged states of one question."""
        self._count = PROMPTS if consensus else 1
        self.calls = frames * self._count

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | Unusable | None:
        """Return P(success) of each frame, float32 [L], for frames uint8 [L, height, width, 3]: that of the only
        prompt, or the least of all prompts' (choice). A state with a failed call is `UNANSWERED`; the answer is
        `Unusable` if some states are, since the guide has a fallback for these, and None if all are. `content`:
        {"instruction": text}."""
        assert frames is not None, "a judged episode has frames"
        joined = frames.shape[2] == 2 * frames.shape[1]
        wordings = prompts(content["instruction"], joined)[: self._count]
        calls = [JudgeCall(frame[None], prompt) for frame in frames for prompt in wordings]
        outcomes = await asyncio.gather(*(ask(call) for call in calls))
        probabilities = least([None if outcome.failure else outcome.value for outcome in outcomes], self._count)
        unanswered = probabilities == UNANSWERED
        if unanswered.all():
            return None
        return Unusable(probabilities) if unanswered.any() else probabilities


def least(probabilities: Sequence[float | None], count: int) -> Array:
    """Return the minimum of each group of `count` successive values, float32 [len(values) / count]; `UNANSWERED` for a
    group with a None."""
    groups = [probabilities[first : first + count] for first in range(0, len(probabilities), count)]
    return np.array(
        [
            UNANSWERED if None in group else min(probability for probability in group if probability is not None)
            for group in groups
        ],
        np.float32,
    )
