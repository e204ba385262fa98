"""The judge `oracle` reports the task's events with stated error rates, the same in any packing and after any
resume."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.models.judges.oracle import EventOracle
from guidebench.harness.models.oracle import Oracle, OracleBackend
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix
from guidebench.harness.streams import Streams
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.logs import log_rows

SUITE = MiniGridDoorKey()
JUDGED = ("method=vlm_rb", "judge=oracle", "replay.clip_length=8")


def oracle(false_positive: float = 0.0, false_negative: float = 0.0) -> Oracle:
    return EventOracle(false_positive, false_negative).spawn(SUITE, "5x5")


def events(*happened: tuple[int, int], length: int = 4) -> np.ndarray:
    """Return bool [length, 3], true at these (transition, event)."""
    flags = np.zeros((length, 3), bool)
    for entry in happened:
        flags[entry] = True
    return flags


def about(*happened: tuple[int, int]) -> Question:
    return Question(0, np.arange(4), None, events(*happened))


def question(row: int, happened: bool) -> Question:
    return Question(row, np.arange(4), np.zeros((4, 2), np.uint8), events((2, 1)) if happened else events())


def question_queue(seeds: tuple[int, ...], answers: Oracle, delay: int | None = 0) -> QuestionQueue:
    return QuestionQueue(
        [f"cell/{seed}" for seed in seeds], delay, OracleBackend(answers, [Streams(seed) for seed in seeds])
    )


def scores(asks: QuestionQueue, step: int) -> dict[tuple[int, int], float]:
    """Return (row, ordinal) -> score of all answers that are due."""
    return {(question.row, ticket.ordinal): answer.value for ticket, question, answer in asks.due(step)}


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_at_rate_0_it_tells_the_truth_and_at_rate_1_the_opposite(rate: float) -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        assert oracle(false_negative=rate)(about((0, 0)), generator) == 1.0 - rate
        assert oracle(false_negative=rate)(about(), generator) == 0.0
        assert oracle(false_positive=rate)(about(), generator) == rate
        assert oracle(false_positive=rate)(about((3, 2), (1, 0)), generator) == 1.0


@pytest.mark.parametrize(("happened", "share_of_yes"), [(True, 0.7), (False, 0.1)])
def test_it_errs_as_often_as_stated(happened: bool, share_of_yes: float) -> None:
    """A correct oracle leaves the interval in one case of 10,000; the seeds are fixed."""
    asks = question_queue((0, 1), oracle(false_positive=0.1, false_negative=0.3))
    for _ in range(1_000):
        for row in (0, 1):
            asks.submit(question(row, happened), step=0)
    answers = scores(asks, 0)
    low, high = binom.interval(0.9999, 2_000, share_of_yes)
    assert len(answers) == 2_000 and low <= sum(answers.values()) <= high
    errs = [[answers[row, ordinal] != happened for ordinal in range(1_000)] for row in (0, 1)]
    joint, rate = np.logical_and(*errs).sum(), 0.3 if happened else 0.1
    assert binom.ppf(5e-5, 1_000, rate**2) <= joint <= binom.ppf(1 - 5e-5, 1_000, rate**2), "seeds err independently"


def test_a_seed_gets_the_same_answers_alone_and_beside_others() -> None:
    clips = np.random.default_rng(0).random((3, 50)) < 0.5
    rates = oracle(false_positive=0.4, false_negative=0.4)
    alone = []
    for seed in (7, 8, 9):
        asks = question_queue((seed,), rates)
        for happened in clips[seed - 7]:
            asks.submit(question(0, happened), step=0)
        alone.append([score for _, score in sorted(scores(asks, 0).items())])
    packed = question_queue((9, 7, 8), rates)
    for ordinal in range(50):
        for row, seed in enumerate((9, 7, 8)):
            packed.submit(question(row, clips[seed - 7][ordinal]), step=0)
    answers = scores(packed, 0)
    assert [[answers[row, ordinal] for ordinal in range(50)] for row in (1, 2, 0)] == alone


def test_questions_in_flight_get_the_same_answers_after_a_resume_in_another_packing() -> None:
    rates = oracle(false_positive=0.5, false_negative=0.5)
    asks = question_queue((3, 4), rates, delay=100)
    for step in range(60):
        for row in (0, 1):
            asks.submit(question(row, step % 3 == 0), step)
    answered = scores(asks, 110)  # questions of steps 0 to 10; the others are in flight
    state = asks.state(1)
    resumed = question_queue((4,), rates, delay=100)
    resumed.load_state(0, state)
    asks.submit(question(1, True), 60)
    resumed.submit(question(0, True), 60)
    expected = {ordinal: score for (row, ordinal), score in scores(asks, 160).items() if row == 1}
    assert len(answered) == 22 and list(expected) == list(range(11, 61))
    assert {ordinal: score for (_, ordinal), score in scores(resumed, 160).items()} == expected
    assert set(expected.values()) == {0.0, 1.0}


def test_an_answer_counts_after_its_delay_or_at_once_without_one() -> None:
    asks = question_queue((0,), oracle(), delay=5)
    asks.submit(question(0, True), step=10)
    assert scores(asks, 14) == {} and scores(asks, 15) == {(0, 0): 1.0} and asks.waited == 0.0
    asks = question_queue((0,), oracle(), delay=None)
    asks.submit(question(0, True), step=10)
    assert scores(asks, 10) == {(0, 0): 1.0}


def test_it_is_given_the_question_and_its_generator() -> None:
    arguments: list[Any] = []

    def listen(*call: Any) -> float:
        arguments.append(call)
        return 1.0

    question_queue((0,), listen).submit(question(0, True), step=0)
    ((query, generator),) = arguments
    assert np.array_equal(query.events, events((2, 1))) and isinstance(generator, np.random.Generator)


def test_its_name_and_kind_say_that_it_is_privileged() -> None:
    (cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", *JUDGED]).cells
    judge = cell.section("judge")
    assert (judge.backend, judge.privileged) == ("oracle", True) and judge.title.startswith("privileged")
    assert (judge.false_positive, judge.false_negative, judge.delay) == (0.0, 0.0, 1024)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (("judge.false_negative=1.5",), r"judge.false_negative=1.5: expected float in \[0, 1\] \(probability\)"),
        (("judge.false_positive=-0.1",), r"judge.false_positive=-0.1: expected float in \[0, 1\]"),
        (("judge.false_positive=often",), r"judge.false_positive=often: expected float in \[0, 1\]"),
        (("suite=classic",), r"judge 'oracle' does not fit suite 'classic'.*: its tasks tell of no events"),
    ],
)
def test_a_rate_outside_0_and_1_or_a_suite_without_events_is_refused(overrides: tuple[str, ...], says: str) -> None:
    suite = [] if overrides[0].startswith("suite") else ["suite=minigrid_doorkey", "task=5x5"]
    with pytest.raises(UserError, match=says):
        matrix.plan([*suite, "method=vlm_rb", "judge=oracle", *overrides])


def test_a_run_draws_no_frame_and_its_judgements_err_both_ways_after_their_delay(train, monkeypatch) -> None:
    from guidebench.suites.minigrid_doorkey.drawing import DoorKeyDrawer

    def refuse(*_: Any) -> None:
        raise AssertionError("an oracle needs no frame and no process")

    monkeypatch.setattr("guidebench.harness.loop.backends.ModelProcess", refuse)
    monkeypatch.setattr(DoorKeyDrawer, "__init__", refuse)
    settings = (
        *JUDGED, "judge.false_negative=0.5", "judge.false_positive=0.2", "judge.delay=40", "seeds=[0,1,2]",
        "training.steps=240", "evaluation.every=240", "evaluation.episodes=1", "learner.channels=4",
        "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "learner.learning_starts=64",
    )  # fmt: skip
    study = train(*settings, packs=[(0, 1, 2)])
    judged = [row for run in study.glob("*/*/*/seed-*") for row in log_rows(run, "judgements")]
    assert len(judged) >= 3 * 200 // 8 and {row["score"] for row in judged} == {0.0, 1.0}
    assert {row["applied"] - row["asked"] for row in judged} == {40}
    assert {(row["score"], row["events"] > 0) for row in judged} == {(0, False), (1, False), (0, True), (1, True)}
