"""Every way that a dialogue about two images can go, and what it costs in calls."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.teachers.vlm import ScriptedVlm, Vlm, prompts
from guidebench.baselines.teachers.vlm.dialogue import ImageDialogue
from guidebench.harness.interfaces import Array, Choice
from guidebench.harness.models.calls import Failure
from tests.baselines.teachers.llm.conversations import Ask
from tests.cell_views import cell_view
from tests.harness.models.dialogues import unwrap_answer

TIMEOUT = Failure("timeout", "no answer")
FRAMES = np.stack([np.full((4, 6, 3), 10, np.uint8), np.full((4, 6, 3), 200, np.uint8)])
ANALYSIS = "Image 2 is brighter: {goal}, {analysis}."


def talk(ask: Any, frames: Array | None = FRAMES, **settings: Any) -> Any:
    """Return what the teacher receives, after a round trip through JSON; a pair without a verdict counts as
    unanswered."""
    dialogue = ImageDialogue(Vlm(**settings), "press the button")
    verdict, answered = unwrap_answer(asyncio.run(dialogue(None, frames, ask)))
    assert answered == (verdict is not None and verdict["outcome"] not in ("unreadable", "failed"))
    return json.loads(json.dumps(verdict))


def texts(call: Any) -> list[str]:
    return [part for message in call.messages for part in message.content if isinstance(part, str)]


def test_two_images_are_analysed_and_the_label_is_asked_of_the_analysis_alone() -> None:
    ask = Ask(ANALYSIS, "2")
    assert talk(ask) == {"first": 2, "second": None, "outcome": "labelled", "retries": 0}
    look, label = ask.calls
    (message,) = look.messages
    assert message.role == "user" and message.content[::2] == ("Image 1:", "Image 2:", message.content[4])
    assert all(np.array_equal(image, frame) for image, frame in zip(message.content[1::2], FRAMES, strict=True))
    assert "press the button" in message.content[4] and "{" not in message.content[4]
    assert not label.images() and len(label.messages) == 1
    text = ask.last_text(1)
    assert ANALYSIS in text and text.count("press the button") == 1, "what is filled in is not searched"


def test_a_check_shows_the_same_two_images_in_the_other_order() -> None:
    ask = Ask("one", "2", "other", "1")
    assert talk(ask, double_check=True) == {"first": 2, "second": 1, "outcome": "labelled", "retries": 0}
    assert [call.images()[0][0, 0, 0] for call in ask.calls[::2]] == [10, 200]
    assert [call.images()[1][0, 0, 0] for call in ask.calls[::2]] == [200, 10]


@pytest.mark.parametrize(
    ("replies", "settings", "says"),
    [
        (["a", "0"], {}, {"first": 0, "outcome": "equal"}),
        (["a", "1"], {}, {"first": 1, "outcome": "labelled"}),
        (["a", "?", "1"], {}, {"first": 1, "outcome": "labelled", "retries": 1}),
        (["a", "?", "?"], {}, {"first": None, "outcome": "unreadable", "retries": 1}),
        (["a", "1 or 2"], {"retries": 0}, {"first": None, "outcome": "unreadable"}),
        (["a", "?", TIMEOUT], {}, {"first": None, "outcome": "unreadable", "retries": 1}),
        (["a", "0"], {"double_check": True}, {"first": 0, "outcome": "equal"}),
        (["a", "1", "b", "1"], {"double_check": True}, {"first": 1, "second": 1, "outcome": "inconsistent"}),
        (["a", "2", "b", "0"], {"double_check": True}, {"first": 2, "second": 0, "outcome": "inconsistent"}),
        (["a", "2", TIMEOUT], {"double_check": True}, {"first": 2, "outcome": "failed"}),
        (["a", "2", "b", TIMEOUT], {"double_check": True}, {"first": 2, "outcome": "failed"}),
        (["a", "?", "2", "b", "?", "1"], {"double_check": True},
         {"first": 2, "second": 1, "outcome": "labelled", "retries": 2}),
    ],
)  # fmt: skip
def test_a_dialogue_ends_where_it_has_to(replies: list[Any], settings: dict[str, Any], says: dict[str, Any]) -> None:
    ask = Ask(*replies)
    assert talk(ask, **settings) == {"second": None, "retries": 0} | says and ask.done


@pytest.mark.parametrize("replies", [[TIMEOUT], ["a", TIMEOUT]])
def test_without_an_answer_to_its_first_question_nothing_is_left(replies: list[Any]) -> None:
    assert talk(Ask(*replies)) is None


def test_an_unreadable_label_is_asked_for_again_with_what_is_wrong_with_it() -> None:
    ask = Ask("a", "Image 2 and Image 1", "2")
    talk(ask)
    assert "I cannot read a label in this reply: its last number is not the only one" in ask.last_text(2)
    assert [message.role for message in ask.calls[2].messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("settings", "calls"), [({}, 3), ({"retries": 0}, 2), ({"double_check": True}, 6), ({"retries": 3}, 5)]
)
def test_no_dialogue_makes_more_calls_than_it_says(settings: dict[str, Any], calls: int) -> None:
    assert ImageDialogue(Vlm(**settings), "push").calls == calls
    retries = Vlm(**settings).retries
    ask = Ask("a", *["?"] * retries, "1", "b", *["?"] * retries, "2")
    talk(ask, **settings)
    assert len(ask.calls) == calls


def test_an_analysis_without_end_is_not_read_on_whole() -> None:
    ask = Ask("x" * 100_000, "1")
    talk(ask)
    assert len(ask.last_text(1)) < 9_000


def test_prompts_of_ones_own_are_filled_in() -> None:
    ask = Ask("seen", "1")
    talk(ask, prompt="Is it done? {goal}!", label_prompt="{analysis} So?")
    assert texts(ask.calls[0])[-1] == "Is it done? press the button!" and texts(ask.calls[1]) == ["seen So?"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, ""),
        ({"prompt": "Which?"}, "teacher.prompt lacks {goal} (placeholders: {goal})"),
        ({"prompt": "{goal} {image}"}, "teacher.prompt holds {image}, which nothing fills in (placeholders: {goal})"),
        ({"label_prompt": "{goal}"}, "teacher.label_prompt lacks {analysis} (placeholders: {analysis}, {goal})"),
        ({"prompt": prompts.PROMPT, "label_prompt": prompts.LABEL_PROMPT}, ""),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_before_training(settings: dict[str, Any], says: str) -> None:
    assert Vlm(**settings).fits(cell_view({"drawing": object()}, "push")) == says


def choose(numbers: list[int | None], **settings: Any) -> tuple[Any, list[Any]]:
    """Return what the teacher receives of a chat that chooses these candidates, None for no answer, and what it was
    asked: message, prefix, candidates and the message without content."""
    questions: list[Any] = []
    dialogue = ImageDialogue(Vlm(**settings), "press the button")

    async def choose_next(message: Any, prefix: str, candidates: Any, neutral: Any, aim: str = "") -> Choice | None:
        assert len(questions) < dialogue.choices
        questions.append((message, prefix, candidates, neutral))
        number = numbers[len(questions) - 1]
        return None if number is None else Choice(number, np.full(3, 1 / 3), 1.0)

    return unwrap_answer(asyncio.run(dialogue.choose(None, FRAMES, choose_next)))[0], questions


def test_a_label_is_chosen_of_two_images_after_all_that_is_the_same_for_all_pairs() -> None:
    verdict, questions = choose([2])
    assert verdict == {"first": 2, "second": None, "outcome": "labelled", "retries": 0}
    ((message, prefix, candidates, neutral),) = questions
    assert (prefix, candidates) == ("More achieved:", ("equal", "first", "second"))
    text, *captioned = message.content
    assert "press the button" in text and "{" not in text
    assert captioned[::2] == ["First image: ", "\nSecond image: "]
    assert all(np.array_equal(image, frame) for image, frame in zip(captioned[1::2], FRAMES, strict=True))
    assert neutral.content == (text, "First image: ", "N/A", "\nSecond image: ", "N/A")


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ([0], {"first": 0, "outcome": "equal"}),
        ([2, 1], {"first": 2, "second": 1, "outcome": "labelled"}),
        ([2, 2], {"first": 2, "second": 2, "outcome": "inconsistent"}),
        ([2, None], {"first": 2, "outcome": "failed"}),
    ],
)
def test_a_check_of_a_choice_swaps_the_images(numbers: list[int | None], says: dict[str, Any]) -> None:
    verdict, questions = choose(numbers, double_check=True)
    assert verdict == {"second": None, "retries": 0} | says
    assert [message.content[2][0, 0, 0] for message, *_ in questions] == [10, 200][: len(numbers)]
    assert choose([None], double_check=True)[0] is None


def test_prompts_for_answers_in_text_are_refused_where_the_chat_chooses() -> None:
    view = cell_view({"drawing": object(), "chat": ScriptedVlm(answer="choice")}, "push")
    assert Vlm().fits(view) == ""
    assert "are for answers in text" in Vlm(prompt=prompts.PROMPT).fits(view)


def test_where_no_frames_are_drawn_it_cannot_teach() -> None:
    assert Vlm().fits(cell_view({"drawing": None}, "push")) == "it shows frames, and the suite draws none"
