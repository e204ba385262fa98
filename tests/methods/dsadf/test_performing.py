"""Which action a performer's reply names, and how often it is asked again."""

import asyncio
from typing import Any

import pytest

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Unusable
from guidebench.methods.dsadf.performing import PerformerDialogue, named
from tests.methods.dsadf.worlds import ACTIONS, START, CannedModel, last_text

POSSIBLE = ["do nothing", "move left", "chop tree"]


@pytest.mark.parametrize(
    "reply",
    [
        "chop tree", "Chop the tree.", "- **chop_tree**", "3. Chop Tree", '"chop tree"', "Action: chop tree",
        "I see a tree, and I could move left.\nMy next action: chop tree", '{"thought": "wood", "action": "chop tree"}',
        "move left\nno, better:\nchop tree",
    ],
)  # fmt: skip
def test_an_action_is_found_in_a_reply(reply: str) -> None:
    assert named(reply, POSSIBLE, ACTIONS, True) == "chop tree"


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("mine stone", "impossible"), ("fly", "unknown"), ("", "unknown"), ("chop tree or move left", "unknown"),
        ("{" * 10_000, "unknown"), ('{"action": 3}', "unknown"), ("done", "unknown"),
    ],
)  # fmt: skip
def test_other_replies_are_refused_by_name(reply: str, fault: str) -> None:
    with pytest.raises(Misread) as refused:
        named(reply, POSSIBLE, ACTIONS, False)
    assert refused.value.fault == fault
    assert named("Done.", POSSIBLE, ACTIONS, True) == "done", "where that is offered"


def acted(model: CannedModel, **more: Any) -> Any:
    content = {"text": START, "possible": [0, 1, 3], "subgoal": "chop tree", "recent": ["move left"], "may_end": True}
    dialogue = PerformerDialogue("make a stone sword", ACTIONS, 2)
    assert dialogue.calls == 3
    return asyncio.run(dialogue({**content, **more}, None, model))


def test_the_prompt_lists_what_is_possible() -> None:
    model = CannedModel("chop tree")
    assert acted(model) == {"action": "chop tree", "faults": [], "said": "chop tree"}
    prompt = last_text(model.heard[0])
    assert "- do nothing\n- move left\n- chop tree\n" in prompt and "mine stone" not in prompt
    assert "## Present sub-goal\nchop tree" in prompt and "## Last actions\nmove left" in prompt and '"done"' in prompt
    model = CannedModel("chop tree")
    acted(model, subgoal="", recent=[], may_end=False)
    assert "sub-goal" not in last_text(model.heard[0]) and "Last actions" not in last_text(model.heard[0])


def test_replies_that_insist_on_an_impossible_action_are_given_up_and_a_corrected_one_is_followed() -> None:
    model = CannedModel("mine stone", "mine stone", "open the door")
    refused = {"action": "", "faults": ["impossible", "impossible", "unknown"], "said": "open the door"}
    assert acted(model) == Unusable(refused), "the fallback acts, so the question counts as unanswered"
    assert "'mine stone' is not possible now; possible are do nothing, move left, chop tree" in last_text(
        model.heard[1]
    )
    mended = {"action": "chop tree", "faults": ["impossible"], "said": "chop tree"}
    assert acted(CannedModel("mine stone", "chop tree")) == mended


def test_a_failed_call_has_no_answer() -> None:
    assert acted(CannedModel(None)) is None
    assert acted(CannedModel("mine stone", None)) == Unusable(
        {"action": "", "faults": ["impossible"], "said": "mine stone"}
    )
