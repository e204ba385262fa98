"""What is asked of the chat, and what can be read from its replies."""

import asyncio
import json
from typing import Any

import pytest

from guidebench.baselines.conversing import Misread
from guidebench.harness.models.calls import Answer, ChatCall
from guidebench.methods.linvit.dialogue import PriorDialogue, weights

NAMES = ("chop tree", "move left", "sleep")


@pytest.mark.parametrize(
    ("reply", "expected", "unknown"),
    [
        ('{"weights": {"chop tree": 3, "sleep": 1}}', [0.75, 0, 0.25], 0),
        ('I would chop. {"weights": {"Chop_Tree": 0.5}} That is all.', [1, 0, 0], 0),
        ('{"weights": {"chop tree": 1, "CHOP  tree": 2, "sleep": 1}}', [0.75, 0, 0.25], 0),
        ('{"weights": {"fly": 9, "sleep": 1, "swim": 0}}', [0, 0, 1], 2),
        ('{"plan": {}} {"weights": {"move left": 1e308, "sleep": 1e308}}', [0, 0.5, 0.5], 0),
    ],
)
def test_a_reply_is_scaled_to_the_sum_one_and_names_that_are_no_action_are_counted(
    reply: str, expected: list[float], unknown: int
) -> None:
    assert weights(reply, NAMES) == (pytest.approx(expected), unknown)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("chop tree", "it holds no JSON object"),
        ('{"weights": {"chop tree": 1', "its JSON cannot be parsed"),
        ('{"weights": ["chop tree"]}', "no object under the name weights"),
        ('{"chop tree": 1}', "no object under the name weights"),
        ('{"weights": {"chop tree": -1}}', "the weight of 'chop tree' is -1"),
        ('{"weights": {"fly": -1, "sleep": 1}}', "the weight of 'fly' is -1"),
        ('{"weights": {"chop tree": true}}', "the weight of 'chop tree' is True"),
        ('{"weights": {"chop tree": "1"}}', "and not a number from 0 on"),
        ('{"weights": {"chop tree": NaN}}', "its JSON cannot be parsed"),
        ('{"weights": {"chop tree": 1e999}}', "its JSON cannot be parsed"),
        ('{"weights": {"chop tree": 0}}', "no action of the list a weight above 0"),
        ('{"weights": {"fly": 1}}', "no action of the list a weight above 0"),
        ('{"weights": {"sleep": 1e308, "SLEEP": 1e308}}', "or their sum is too large"),
        ('{"weights": ' + "[" * 5000 + "}", "its JSON cannot be parsed"),
    ],
)
def test_other_replies_are_refused_with_what_is_wrong(reply: str, message: str) -> None:
    with pytest.raises(Misread, match=message):
        weights(reply, NAMES)


def converse(*replies: str | None, retries: int = 1) -> tuple[Any, list[ChatCall]]:
    """Return the dialogue's answer to these replies, None for a failed call, and the calls that were made."""
    calls: list[ChatCall] = []

    async def ask(call: Any) -> Answer:
        calls.append(call)
        reply = replies[len(calls) - 1]
        return Answer(None, "timeout") if reply is None else Answer(reply)

    content = {"instruction": "chop {state}", "state": "you see tree."}
    return asyncio.run(PriorDialogue(NAMES, retries)(content, None, ask)), calls


def test_the_prompt_holds_goal_state_and_actions_and_inserts_nothing_twice() -> None:
    result, (call,) = converse('{"weights": {"sleep": 2, "fly": 1}}')
    assert result == {"weights": [0, 0, 1], "unknown": 1} and json.dumps(result)
    (prompt,) = call.messages[0].content
    lines = prompt.splitlines()
    assert {"The goal: chop {state}", "The state: you see tree.", "- chop tree", "- move left", "- sleep"} <= {*lines}


def test_a_reply_that_cannot_be_read_is_asked_for_again_with_the_reason_and_then_given_up() -> None:
    result, (_, second) = converse("No.", '{"weights": {"sleep": 2}}')
    assert result == {"weights": [0, 0, 1], "unknown": 0}
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    assert "it holds no JSON object" in second.messages[2].content[0]
    assert converse("No.", "No.")[0] is None and converse(None)[0] is None
    result, calls = converse("No.", retries=0)
    assert result is None and len(calls) == PriorDialogue(NAMES, 0).calls == 1
