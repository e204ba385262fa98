"""The target that is inferred from what was tried: its sample, its dialogue and its place in a policy."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Unusable
from guidebench.methods.dsadf import prompts
from guidebench.methods.dsadf.planning import PlannerDialogue
from guidebench.methods.dsadf.targets import History, Tried, packed, unpacked
from tests.methods.dsadf.worlds import HINT, START, Says, Steps, said


def tried(step: int, did: str = "", reward: float = 0.0) -> Tried:
    return Tried(step, "you hold nothing.", "look up", did, reward)


def test_a_sample_keeps_what_was_rewarded_then_what_was_done_then_any_step() -> None:
    history = History(5)
    for step in range(100):
        history.add(tried(step, "grab mug" if step in (3, 50) else "", -0.2 if step == 10 else 0.2 * (step == 90)))
    steps = [step for step, *_ in history.state()]
    assert len(history) == 5 and steps == sorted(steps) and {3, 10, 50, 90} < {*steps}
    for step in range(100, 110):
        history.add(tried(step, reward=1))
    assert {step for step, *_ in history.state()} <= {10, 90, *range(100, 110)}, "rewards push out all others"


def test_steps_that_did_nothing_are_sampled_evenly_and_alike_in_every_run() -> None:
    one, other = History(200), History(200)
    for step in range(2_000):
        one.add(tried(step))
        other.add(tried(step))
    counts = np.histogram([step for step, *_ in one.state()], bins=4, range=(0, 2_000))[0]
    assert one.state() == other.state() and counts.sum() == 200 and counts.min() > 30


def test_a_history_is_told_line_by_line_and_restored() -> None:
    history, other = History(3), History(3)
    history.add(tried(7, "grab mug", 0.2))
    history.add(tried(9))
    assert history.text() == (
        "Step 7. Seen: you hold nothing. Action: look up (grab mug). Reward: 0.2.\n"
        "Step 9. Seen: you hold nothing. Action: look up. Reward: 0."
    )
    other.load_state(json.loads(json.dumps(history.state())))
    for each in (history, other):
        each.add(tried(11, "put mug on sink"))
        each.add(tried(12))
    assert other.text() == history.text() and other.text().count("mug") == 2


def inferred(model: Says, retries: int = 2, **more: str) -> Any:
    return asyncio.run(
        PlannerDialogue("be tidy", Steps(), HINT, 5, retries)({"history": "Step 7.", **more}, None, model)
    )


GOOD = 'I think so. {"target": "put the mug\\n on the shelf"}'


def test_the_prompt_holds_history_and_hint_and_the_answer_is_one_line() -> None:
    model = Says(GOOD, "1. chop tree")
    assert inferred(model) == {"target": "put the mug on the shelf", "fault": "", "retries": 0}
    told = prompts.sections(said(model.heard[0]))
    assert (told["Goal"], told["What was tried"], told["Hints"]) == ("be tidy", "Step 7.", HINT)
    assert "at most 1000 characters" in told["Your answer"]
    asyncio.run(PlannerDialogue("be tidy", Steps(), HINT, 5, 0)({"text": START, "goal": "T"}, None, model))
    assert prompts.sections(said(model.heard[1]))["Goal"] == "T", "the target takes the goal's place"


@pytest.mark.parametrize(
    ("reply", "fault", "why"),
    [
        ("The mugs should go home.", "unreadable", "holds no JSON object"),
        ('{"goal": "x"}', "unreadable", "its target is None"),
        ('{"target": ["x"]}', "unreadable", "a text is needed"),
        ('{"target": " \\n "}', "empty", "its target is empty"),
        (json.dumps({"target": "x" * 1_001}), "long", "1,001 characters; write at most 1,000"),
        # 100 characters that cannot be printed, each written in six
        (json.dumps({"target": "x" * 900 + "\u202e" * 100}), "long", "1,500 characters; write at most 1,000"),
    ],
)
def test_an_unusable_answer_is_asked_about_again_and_then_given_up(reply: str, fault: str, why: str) -> None:
    model = Says(reply, GOOD)
    assert inferred(model) == {"target": "put the mug on the shelf", "fault": "", "retries": 1}
    assert why in said(model.heard[1])
    assert inferred(Says(reply, reply), retries=1) == Unusable({"target": "", "fault": fault, "retries": 1})
    assert inferred(Says(None)) is None


def test_a_policy_holds_the_target_and_refuses_others() -> None:
    for told in ("", "put the mug on the shelf", "ü" * 1_000, "\U0001f600" * 1_000):
        held = packed(told)
        assert held.dtype == np.uint8 and held.shape == (4_000,) and unpacked(held) == told
    for content in (b"\xff", b"two\nlines", b"x" * 1_001):
        with pytest.raises(UserError, match="the target in this policy is no line of at most 1,000 characters"):
            unpacked(np.frombuffer(content, np.uint8))
