"""The question for goals, and the hand-written chat that reads it."""

import asyncio
import json
from typing import Any

import pytest

from guidebench.harness.interfaces import Unusable
from guidebench.harness.models.calls import Answer, ChatCall, Message
from guidebench.methods.ellm.dialogue import NAMED, SCHEMA, STATE, GoalsDialogue, prompt
from guidebench.methods.ellm.goals import Words
from guidebench.methods.ellm.scripted import NEEDS, PromptReader
from guidebench.suites.crafter.captions import DEEDS

WORDS = Words.of(DEEDS)


def goals(state: str, senseless: float = 0.0, deeds: tuple[str, ...] = DEEDS) -> list[str]:
    message = Message("user", (prompt(state, deeds, Words.of(deeds), 10),))
    answer: list[str] = PromptReader(senseless)((message,))["goals"]
    return answer


def test_a_prompt_says_what_is_seen_and_which_words_there_are() -> None:
    text = prompt("you see tree.", DEEDS, WORDS, 7)
    lines = text.splitlines()
    assert lines[-1] == "State: you see tree." and "at most 7 goals" in text
    assert "Verbs: attack, chop, drink, eat, make, mine, place" in lines
    (nouns,) = (line for line in lines if line.startswith("Nouns: "))
    assert {*nouns.removeprefix("Nouns: ").split(", ")} == {deed.partition(" ")[2] for deed in DEEDS} - {""}
    assert "Verbs without a noun: sleep" in lines and text.count("Example. ") == 3
    examples = [json.loads(line.partition(" -> ")[2]) for line in lines if line.startswith("Example. ")]
    assert all(not ChatCall((Message("user", ("?",)),), SCHEMA).fault(example) for example in examples), (
        "as is asked for"
    )
    assert prompt("", DEEDS, WORDS, 7).endswith("State: nothing is in sight.")
    deeds = ("chop tree", "chop grass", "drink water", "attack cow")
    text = prompt("you see tree.", deeds, Words.of(deeds), 7)
    assert text.count("Example. ") == 1 and "without a noun" not in text and "pickaxe" not in text, "of another task"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("you see grass and tree.", ["chop tree", "chop grass"]),
        ("you see water. you feel thirsty.", ["drink water"]),
        ("you see water.", []),
        ("you see path and stone. you have in your inventory wood pickaxe.", ["mine stone"]),
        ("you see path and stone.", []),
        (
            "you see crafting table. you have in your inventory wood.",
            ["make wood pickaxe", "make wood sword", "place crafting table"],
        ),
        ("you see cow, grass, and zombie. you feel hungry and sleepy.",
         ["eat cow", "sleep", "attack zombie", "attack cow", "chop grass"]),
        ("nothing", []),
    ],
)  # fmt: skip
def test_the_hand_written_chat_suggests_what_the_state_allows(state: str, expected: list[str]) -> None:
    assert goals(state) == expected
    assert goals("you see cow and tree.", deeds=("chop tree",)) == ["chop tree"], "no word that the prompt lacks"


def test_it_errs_at_the_stated_rate_and_always_alike() -> None:
    states = [f"you see cow, grass, and tree. you feel {number}." for number in range(150)]
    suggestions = [goals(state, 0.2) for state in states]
    assert suggestions == [goals(state, 0.2) for state in states]
    senseless = [goal for suggestion in suggestions for goal in suggestion if goal not in NEEDS]
    assert len(senseless) / (4 * 150) == pytest.approx(0.2, abs=0.05), "eat cow, chop tree, attack cow, chop grass"
    assert all(WORDS.form(goal) for goal in senseless) and len({*senseless}) > 40
    assert not set(goals(states[0], 1.0)) & set(NEEDS)


def test_a_dialogue_is_one_call_with_a_schema_and_returns_what_the_model_wrote() -> None:
    answers = (["Chop tree", "fly"], ["fly", "eat the moon"], [])
    calls, replies = list[Any](), [*(Answer({"goals": names}) for names in answers), Answer(None, "malformed")]

    async def ask(call: Any) -> Answer:
        calls.append(call)
        return replies[len(calls) - 1]

    dialogue = GoalsDialogue(DEEDS, 5)
    outcomes = [asyncio.run(dialogue("you see tree.", None, ask)) for _ in replies]
    assert outcomes == [answers[0], Unusable(answers[1]), [], None], (
        "goals of which none is one of the task are no answer"
    )
    call = calls[0]
    assert isinstance(call, ChatCall) and call.schema == SCHEMA
    assert call.messages[0].content[0].splitlines()[-1] == f"{STATE}you see tree."  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ({"goals": []}, True), ({"goals": ["a"] * NAMED}, True), ({"goals": ["a"] * (NAMED + 1)}, False),
        ({"goals": [1]}, False), ({"goals": "chop tree"}, False), ({"goals": ["x" * 201]}, False), ({}, False),
        ({"goals": [], "why": "because"}, False), (["chop tree"], False), ("chop tree", False),
    ],
)  # fmt: skip
def test_an_answer_of_another_form_is_a_failure(answer: Any, fits: bool) -> None:
    assert (ChatCall((Message("user", ("?",)),), SCHEMA).fault(answer) == "") == fits
