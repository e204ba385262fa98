"""Conversations of planner and reflector: their prompts, how replies are read, and how often they are asked again."""

import asyncio
import time
from typing import Any

import pytest

from guidebench.harness.interfaces import Unusable
from guidebench.methods.dsadf.planning import PlannerDialogue, ReflectorDialogue, instruction, reflection
from guidebench.methods.dsadf.plans import Vocabulary
from tests.methods.dsadf.worlds import ACTIONS, HINT, START, CannedModel, Steps, last_text

GOAL = "make a stone sword"


def planned(model: CannedModel, retries: int = 2, **more: str) -> Any:
    return asyncio.run(PlannerDialogue(GOAL, Steps(), HINT, 5, retries)({"text": START, **more}, None, model))


def test_prompts_hold_goal_state_hint_and_actions_and_the_final_one_plan_and_reflection() -> None:
    model = CannedModel("Wood first.\n1. chop tree (2 times)\n2. place crafting table")
    answer = planned(model)
    assert answer == {
        "plan": [["chop tree", 2], ["place crafting table", 1]], "fault": "", "retries": 0,
        "thoughts": "Wood first. 1. chop tree (2 times) 2. place crafting table",
    }  # fmt: skip
    prompt, final = last_text(model.heard[0]), CannedModel("1. chop tree")
    assert all(
        part in prompt for part in (GOAL, START, HINT, "- place crafting table", "at most 5 steps", "step by step")
    )
    planned(final, plan="1. mine stone", reflection="Weaknesses: no pickaxe")
    assert "## Plan\n1. mine stone" in last_text(final.heard[0]) and "Weaknesses: no pickaxe" in last_text(
        final.heard[0]
    )


def test_an_unusable_reply_is_asked_about_again_and_then_given_up() -> None:
    model = CannedModel("No idea.", "1. fly", "1. chop tree")
    assert planned(model)["plan"] == [["chop tree", 1]]
    assert "holds no plan" in last_text(model.heard[1]) and "'fly'" in last_text(model.heard[2])
    model = CannedModel("No idea.", "1. fly")
    assert planned(model, retries=1) == Unusable({"plan": [], "thoughts": "", "fault": "unknown", "retries": 1})
    assert planned(CannedModel(None)) is None
    answer = planned(CannedModel("No idea.", None))
    assert isinstance(answer, Unusable) and answer.value["fault"] == "empty", "a failure does not hide what was said"


def reflected(reply: str) -> dict[str, Any]:
    return reflection(reply, Vocabulary(ACTIONS, (GOAL,)), 5)


def test_a_reflection_in_the_papers_form_is_read() -> None:
    """App. B.2: Strengths, Weaknesses, Revised Plan (if needed)."""
    answer = reflected(
        "- **Strengths:** It is short.\n- **Weaknesses:** Wood is\nmissing.\n- **Revised Plan (if needed):**\n"
        "1. Chop Tree (tree.location) – get wood\n2. Make Stone Sword"
    )
    assert answer == {
        "strengths": "It is short.", "weaknesses": "Wood is missing.", "fault": "",
        "plan": [["chop tree", 1], ["make stone sword", 1]],
    }  # fmt: skip
    assert instruction(answer) == "Weaknesses: Wood is missing.\nSuggested plan:\n1. chop tree\n2. make stone sword"


@pytest.mark.parametrize("none", ["none", "None.", "No weaknesses.", "N/A", "**none**"])
def test_a_reflection_without_weaknesses_asks_for_no_change(none: str) -> None:
    answer = reflected(f"Strengths: good\nWeaknesses: {none}\nRevised plan: none")
    assert answer["weaknesses"] == "" and answer["plan"] == [] and instruction(answer) == ""


def test_an_unusable_revised_plan_leaves_the_weaknesses() -> None:
    answer = reflected("Weaknesses: too slow\nRevised plan:\n1. teleport")
    assert (answer["weaknesses"], answer["plan"], answer["fault"]) == ("too slow", [], "unknown")
    assert instruction(answer) == "Weaknesses: too slow"
    assert reflected("You forgot the wood.")["weaknesses"] == "You forgot the wood.", "without headings"
    answer = reflected("Weaknesses: \x1b[31m bad \u202e" + "very " * 100_000)
    assert len(answer["weaknesses"]) <= 2_000 and answer["weaknesses"].isprintable(), "on one line and bounded"


def test_a_reply_of_blank_lines_is_read_in_time_that_grows_with_its_length() -> None:
    began = time.process_time()
    assert reflected("\n" * 100_000)["weaknesses"] == ""
    assert time.process_time() - began < 20, "milliseconds; a search that grows with the square takes a minute"
    assert reflected("Strengths: few\n\n\n- **Weaknesses:** slow")["weaknesses"] == "slow"


def test_the_reflector_is_asked_once() -> None:
    model = CannedModel("Strengths: fine\nWeaknesses: none")
    dialogue = ReflectorDialogue(GOAL, Steps(), HINT, 5)
    content = {"text": START, "plan": "1. chop tree"}
    answer = asyncio.run(dialogue(content, None, model))
    assert isinstance(answer, dict) and answer["strengths"] == "fine" and dialogue.calls == 1
    assert "## Plan\n1. chop tree" in last_text(model.heard[0]) and HINT in last_text(model.heard[0])
    assert asyncio.run(dialogue(content, None, CannedModel(None))) is None
    assert isinstance(asyncio.run(dialogue(content, None, CannedModel("\n "))), Unusable)


@pytest.mark.parametrize("revised", [False, True])
def test_a_revised_plan_that_cannot_be_read_is_no_answer_where_it_was_to_be_followed(revised: bool) -> None:
    model = CannedModel("Weaknesses: too slow\nRevised plan:\n1. teleport")
    dialogue = ReflectorDialogue(GOAL, Steps(), HINT, 5, revised)
    answer = asyncio.run(dialogue({"text": START, "plan": "1. chop tree"}, None, model))
    assert isinstance(answer, Unusable) == revised
