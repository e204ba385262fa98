from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Unusable
from guidebench.harness.models.calls import Answer, Call, JudgeCall
from guidebench.harness.models.prompts import misfit
from guidebench.methods.robofume.dialogue import (
    PROMPTS,
    TWO_VIEWS,
    UNANSWERED,
    SuccessDialogue,
    least,
    prompts,
    question,
)

PUT = "put the red block into the left bin"
BACK = "take the green block out of the right bin and put it on the tray"
SIDE = "move the orange block to the near side of the tray"


def converse(dialogue: SuccessDialogue, frames: Any, values: Sequence[float | None], instruction: str = PUT) -> Any:
    """Return the dialogue's value and its calls, where the n-th call is answered by values[n] and later calls first."""
    calls: list[JudgeCall] = []

    async def ask(call: Call) -> Answer:
        assert isinstance(call, JudgeCall)
        calls.append(call)
        value = values[len(calls) - 1]
        await asyncio.sleep(0.01 * (len(values) - len(calls)))
        return Answer(None, "timeout") if value is None else Answer(value)

    return asyncio.run(dialogue({"instruction": instruction}, frames, ask)), calls


def frames(count: int, width: int = 16) -> Any:
    return np.stack([np.full((8, width, 3), 10 * number, np.uint8) for number in range(count)])


def test_each_state_is_one_clip_of_one_frame_and_its_answer_is_p() -> None:
    p, calls = converse(SuccessDialogue(consensus=False), frames(3), [0.25, 0.5, 1.0])
    assert p.dtype == np.float32 and p.tolist() == [0.25, 0.5, 1.0]
    assert [call.clip[:, 0, 0, 0].tolist() for call in calls] == [[0], [10], [20]]
    assert {call.prompt for call in calls} == {prompts(PUT, True)[0]}


def test_a_consensus_is_the_least_of_four_prompts_and_yes_only_if_all_four_are() -> None:
    answers = [0.9, 0.8, 0.6, 0.5, 0.9, 0.9, 0.9, 0.49]
    p, calls = converse(SuccessDialogue(consensus=True), frames(2), answers)
    assert p.tolist() == np.float32([0.5, 0.49]).tolist()
    assert (p >= 0.5).tolist() == [True, False]
    assert [call.prompt for call in calls] == prompts(PUT, True) * 2


def test_a_state_with_a_failed_call_is_no_success_and_a_question_without_any_answer_fails() -> None:
    assert least([0.9, None, 0.75, 1.0], 2).tolist() == [UNANSWERED, 0.75]
    assert UNANSWERED < 0
    answer, _ = converse(SuccessDialogue(consensus=False), frames(2), [None, 0.75])
    assert isinstance(answer, Unusable), "an answer that lacks a state does not count as one"
    assert answer.value.tolist() == [UNANSWERED, 0.75]
    assert converse(SuccessDialogue(consensus=False), frames(2), [None, None])[0] is None


def test_calls_are_concurrent() -> None:
    under_way, most = 0, 0

    async def ask(call: Call) -> Answer:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return Answer(1.0)

    asyncio.run(SuccessDialogue(consensus=True)({"instruction": PUT}, frames(5), ask))
    assert most == 5 * PROMPTS
    assert [SuccessDialogue(consensus, frames=40).calls for consensus in (False, True)] == [40, 160], "at most"


@pytest.mark.parametrize(
    ("instruction", "asks"),
    [
        (PUT, "Is the red block in the left bin, and has the gripper let go of it?"),
        (BACK, "Is the green block on the tray, and has the gripper let go of it?"),
        (SIDE, "Is the orange block at the near side of the tray, and has the gripper let go of it?"),
        ("open the drawer", 'The robot was told: "open the drawer". Has it finished this?'),
    ],
)
def test_prompts_ask_whether_the_thing_is_where_it_should_be(instruction: str, asks: str) -> None:
    for joined in (False, True):
        texts = prompts(instruction, joined)
        assert asks in texts[0]
        assert len({*texts}) == PROMPTS and not any(map(misfit, texts))
        assert all(text.startswith(TWO_VIEWS) == joined for text in texts)


def test_one_view_or_two_follows_from_the_frames_shape() -> None:
    for width, joined in ((16, True), (8, False)):
        _, (call,) = converse(SuccessDialogue(consensus=False), frames(1, width), [1.0])
        assert call.prompt == prompts(PUT, joined)[0]


def test_a_question_names_the_instruction_and_tells_an_oracle_what_is_true() -> None:
    inquiry = question(
        1, np.arange(3), np.zeros((3, 8), np.uint8), np.zeros((3, 2), bool), np.array([0, 1, 1]) > 0, PUT
    )
    assert (inquiry.row, inquiry.to, json.loads(inquiry.content)) == (1, "classifier", {"instruction": PUT})
    assert inquiry.measures is not None and inquiry.measures.tolist() == [[0], [1], [1]]
    with pytest.raises(UserError, match="3 keys, 2 snapshots, 3 events and 3 successes"):
        question(0, np.arange(3), np.zeros((2, 8), np.uint8), np.zeros((3, 2), bool), np.zeros(3, bool), PUT)
