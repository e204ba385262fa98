"""A person as a backend: the loop halts where an answer is missing, and goes on once it is there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.teachers.human import files as questions
from guidebench.baselines.teachers.human.backend import HumanBackend
from guidebench.harness.errors import BudgetReached
from guidebench.harness.interfaces import Question
from guidebench.harness.models.questions import QuestionQueue
from tests.refusals import check_refused

NOBODY = np.zeros((1, 0), bool)


def ask(row: int, number: int, snapshots: Any = None) -> Question:
    return Question(row, np.array([number]), snapshots, NOBODY, json.dumps({"pair": [row, number]}), "human")


def runs(tmp_path: Path, count: int = 1) -> list[Path]:
    return [tmp_path / "study/suite/task/method-id" / f"seed-{seed}" for seed in range(count)]


def question_queue(directories: list[Path]) -> QuestionQueue:
    """Return the queue of questions that a worker makes for these runs."""
    return QuestionQueue(
        [f"cell/{seed}" for seed in range(len(directories))], 1, HumanBackend(directories), True, "human"
    )


def test_the_loop_is_halted_before_the_step_at_which_an_unanswered_question_is_due(tmp_path: Path) -> None:
    (run,) = directories = runs(tmp_path)
    asks = question_queue(directories)
    assert not asks.halted(5)
    asks.submit(ask(0, 0), 5)
    asks.submit(ask(0, 1), 5)
    assert not asks.halted(5) and asks.halted(6)
    assert asks.reason.startswith("2 questions wait for a person")
    assert f"`bench label {tmp_path / 'study'}`" in asks.reason
    questions.answer(questions.read(run, 1), 1)
    assert asks.halted(6) and asks.reason.startswith("1 question waits")
    with pytest.raises(BudgetReached, match="1 question waits for a person"):
        asks.due(6)
    asks = question_queue(directories)
    asks.submit(ask(0, 0), 5)
    questions.answer(questions.read(run, 0), 0.5)
    assert not asks.halted(6)


def test_answers_come_in_the_order_of_the_questions_each_to_its_seed(tmp_path: Path) -> None:
    directories = runs(tmp_path, 2)
    asks = question_queue(directories)
    for row, number in ((1, 7), (0, 3), (1, 8)):
        asks.submit(ask(row, number), 5)
    for run, ordinal, label in ((directories[1], 1, None), (directories[0], 0, 1), (directories[1], 0, 0)):
        questions.answer(questions.read(run, ordinal), label)
    assert asks.due(5) == []
    answers = asks.due(6)
    rows = [(question.row, int(question.key[0]), answer.value, question.to) for _, question, answer in answers]
    assert rows == [
        (0, 3, {"label": 1}, "human"), (1, 7, {"label": 0}, "human"), (1, 8, {"label": None}, "human"),
    ]  # fmt: skip
    assert [account.would_be.calls for account in asks.accounts] == [1, 2]
    assert asks.in_flight == 0


def test_what_is_in_a_checkpoint_is_asked_again_and_an_answer_given_meanwhile_counts(tmp_path: Path) -> None:
    (run,) = directories = runs(tmp_path)
    drawn = np.arange(12, dtype=np.uint8).reshape(4, 3)
    before = question_queue(directories)
    before.submit(ask(0, 0, drawn), 5)
    state = before.state(0)
    for file in (run / questions.QUESTIONS).iterdir():
        file.unlink()
    after = question_queue(directories)
    after.load_state(0, state)
    question = questions.read(run, 0)
    np.testing.assert_array_equal(question.snapshots(), drawn)
    assert after.halted(6)
    questions.answer(question, 1)
    again = question_queue(directories)
    again.load_state(0, state)
    assert not again.halted(6)
    ((ticket, _, answer),) = again.due(6)
    assert answer.value == {"label": 1} and ticket.ordinal == 0
    again.submit(ask(0, 1), 9)
    assert questions.read(run, 1).step == 9


def test_only_an_answer_to_this_very_question_counts_and_the_last_of_two(tmp_path: Path) -> None:
    (run,) = directories = runs(tmp_path)
    asks = question_queue(directories)
    asks.submit(ask(0, 0), 5)
    question = questions.read(run, 0)
    questions.answer(question._replace(step=4), 1)
    questions.answer(question._replace(ordinal=1), 1)
    assert asks.halted(6)
    questions.answer(question, 1)
    questions.answer(question, 0)
    questions.answer(question._replace(step=4), 1)
    ((_, _, answer),) = asks.due(6)
    assert answer.value == {"label": 0}


def test_a_file_edited_by_hand_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    (run,) = directories = runs(tmp_path)
    asks = question_queue(directories)
    asks.submit(ask(0, 0), 5)
    questions.answer(questions.read(run, 0), 0)
    path = run / questions.ANSWERS
    path.write_text(path.read_text().replace('"label": 0', '"label": 3'))
    check_refused(r"answers\.jsonl, line 1: expected .*0, 0\.5, 1 or null", asks.halted, 6)
