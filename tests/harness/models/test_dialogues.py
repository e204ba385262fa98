"""A dialogue in the model process: one question, several calls that depend on each other, one answer."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.models.messages import Assignment, RegisteredPart, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue

# The chat counts the letters of the last message; the dialogue then asks about that answer.
SOURCE = """
    import json
    from dataclasses import dataclass
    from guidebench.harness.interfaces import Unusable
    from guidebench.harness.models.calls import ChatCall, Message
    from guidebench.harness.parts import ModelPart, TeacherPart
    from guidebench.harness.registry import register

    @register.chat("counting")
    @dataclass(frozen=True)
    class Counting(ModelPart):
        '''Counts letters.'''
        version = 1
        backend = "scripted"
        citation = "% a test's own"
        delay: int = 2
        timeout: float = 20.0

        def spawn(self, suite, task):
            def speak(messages):
                if messages[-1].content[0] == "fall over":
                    raise RuntimeError("fell over")
                return str(len(messages[-1].content[0]))
            return speak

    class Twice:
        calls = 2

        async def __call__(self, content, frames, ask):
            if content == "say nothing":
                return None
            if content == "say what is of no use":
                return Unusable("of no use")
            first = await ask(ChatCall((Message("user", (content,)),), repeats=content == "again"))
            second = await ask(ChatCall((Message("user", (first.value * 3,)),)))
            shape = None if frames is None else list(frames.shape)
            return {"first": first.value, "second": second.value, "frames": shape}

    @register.teacher("curious")
    @dataclass(frozen=True)
    class Curious(TeacherPart):
        '''Asks twice.'''
        version = 1
        citation = "% a test's own"
        needs = {"chat": "chat"}

        def dialogue(self, suite, task, role):
            return Twice()
"""


@pytest.fixture
def asks(plugin: Any) -> Iterator[QuestionQueue]:
    plugin("talking_module", SOURCE, {"chat": "counting", "teacher": "curious"})
    suite, teacher = RegisteredPart("suite", "minigrid_doorkey"), RegisteredPart("teacher", "curious")
    voice = Voice(RegisteredPart("chat", "counting"), speaker=teacher)
    process = ModelProcess(Assignment(suite, "5x5", {"chat": voice}, {}), 20.0)
    yield QuestionQueue(["cell/0", "cell/1"], 2, process, role="chat", kind="chat")
    process.close()


def question(row: int, content: str, snapshots: Any = None) -> Question:
    return Question(row, np.array([row]), snapshots, np.zeros((1, 0), bool), content, "chat")


def test_a_dialogue_ends_with_one_answer_at_its_step_and_all_its_calls_are_counted(asks: QuestionQueue) -> None:
    asks.submit(question(0, '"four"'), 10)
    asks.submit(question(1, '"sixteen letters!"'), 10)
    assert asks.due(11) == []
    (first_ticket, _, first), (_, second_question, second) = asks.due(12)
    assert first.value == {"first": "4", "second": "3", "frames": None}
    assert second.value == {"first": "16", "second": "6", "frames": None}
    assert (first_ticket.role, second_question.row, first.usage.calls) == ("chat", 1, 2)
    assert [account.would_be.calls for account in asks.accounts] == [2, 2]


def test_frames_of_a_dialogue_are_as_many_as_its_snapshots(asks: QuestionQueue) -> None:
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    task = MiniGridDoorKey().make("5x5")
    task.reset(0)
    asks.submit(question(0, '"look"', np.stack([task.snapshot()] * 3)), 1)
    ((_, _, answer),) = asks.due(3)
    assert answer.value["frames"][0] == 3 and len(answer.value["frames"]) == 4


def test_a_dialogue_that_ends_with_nothing_is_a_failure(asks: QuestionQueue) -> None:
    asks.submit(question(0, '"say nothing"'), 1)
    ((_, _, answer),) = asks.due(3)
    assert answer.value is None and answer.failure == "malformed" and asks.accounts[0].failures == 1


def test_an_answer_for_which_a_fallback_stands_reaches_the_part_and_counts_as_a_failure(asks: QuestionQueue) -> None:
    asks.submit(question(0, '"say what is of no use"'), 1)
    ((_, _, answer),) = asks.due(3)
    assert (answer.value, answer.failure) == ("of no use", "malformed")
    assert (asks.accounts[0].questions, asks.accounts[0].failures) == (1, 1)


def test_a_fault_in_hand_written_code_is_told_with_its_traceback(asks: QuestionQueue) -> None:
    asks.submit(question(0, '"fall over"'), 1)
    with pytest.raises(UserError, match=r"(?s)chat 'counting' failed on a question.*fell over"):
        asks.due(3)


def test_an_answer_after_a_reply_that_could_not_be_read_is_counted_and_the_count_is_kept(asks: QuestionQueue) -> None:
    for text in ("again", "at once", "say nothing"):
        asks.submit(question(0, f'"{text}"'), 1)
    assert [answer.retried for _, _, answer in asks.due(3)] == [True, False, False]
    assert (asks.accounts[0].questions, asks.accounts[0].failures, asks.accounts[0].retried) == (3, 1, 1)
    state = asks.state(0)
    asks.load_state(1, state)
    assert asks.accounts[1] == asks.accounts[0]
    del state["account"]["retried"]
    asks.load_state(1, state)
    assert asks.accounts[1].retried == 0, "a checkpoint from before it was counted"
