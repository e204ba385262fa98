"""The hand-written chat: what it thinks, how often it errs and how, and what asking in both orders makes of that."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from guidebench.baselines.conversing import filled
from guidebench.baselines.preference.conversing import verdict
from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.llm import Llm, Scripted, prompts, trajectories
from guidebench.baselines.teachers.llm.dialogue import PairDialogue
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Coordinates
from guidebench.harness.models.backends.scripted import ScriptedModel
from guidebench.harness.models.calls import Answer, Call, ChatCall, EmbedCall, Message
from tests.baselines.teachers.llm.conversations import PUSH, REACH, pair, segment, talk
from tests.cell_views import cell_view
from tests.harness.models import dialogues

NOWHERE: Any = None
"""The suite that a scripted part is given; this one does not look at it."""
PAIRS = 160
SURE: dict[str, Any] = {"error": 0.0, "first_bias": 0.0, "noise": 0.0}


def question_about(first: Array, second: Array, coordinates: tuple[Coordinates, ...] = PUSH) -> str:
    texts = {name: trajectories.text(trajectories.named_points(coordinates, states), 4) for name, states in
              (("trajectory_1", first), ("trajectory_2", second))}  # fmt: skip
    return filled(prompts.PROMPT, texts)


def reply_to(question: str, **settings: Any) -> str:
    return Scripted(**settings).spawn(NOWHERE, "")((Message("user", (question,)),))


def answer(question: str, **settings: Any) -> int:
    return verdict(reply_to(question, **settings))


class Direct:
    """The scripted chat as the dialogue's calls reach it, without a process in between."""

    def __init__(self, **settings: Any) -> None:
        self._chat = Scripted(**settings).spawn(NOWHERE, "")
        self.calls = 0

    async def __call__(self, call: Call) -> Answer:
        assert isinstance(call, ChatCall)
        self.calls += 1
        return Answer(self._chat(call.messages))


@pytest.mark.parametrize("coordinates", [PUSH, REACH], ids=["object", "no object"])
def test_it_prefers_what_is_nearer_and_reasons_in_words(coordinates: tuple[Coordinates, ...]) -> None:
    near, far = segment(1, coordinates=coordinates, nearer=0.9), segment(1, coordinates=coordinates)
    assert (
        answer(question_about(near, far, coordinates), **SURE) == 1
        and answer(question_about(far, near, coordinates), **SURE) == 2
    )
    text = reply_to(question_about(near, far, coordinates), **SURE)
    points = trajectories.named_points(coordinates, near)
    goal = points["obj"] if coordinates is PUSH else points["target"]
    distance = float(np.linalg.norm(np.round(points["tcp"], 4) - np.round(goal, 4), axis=1).mean())
    assert f"In Trajectory 1 tcp is {distance:.4f} from {'obj' if coordinates is PUSH else 'target'} on average" in text
    assert text.splitlines()[-1] == "1" and "Trajectory 1 furthers the task more" in text


def test_it_sees_no_difference_below_its_threshold() -> None:
    first, second = segment(1), segment(1)
    second[:, 0] += 0.0005
    assert answer(question_about(first, second), **SURE) == 0 and answer(
        question_about(first, second), **SURE, equal=0.0
    ) in (1, 2)
    assert answer(question_about(first, second), error=1.0, first_bias=0.0) == 0, "there is nothing to misjudge"
    assert answer(question_about(first, second), first_bias=1.0) == 1, "the order still decides"


def test_equal_questions_get_equal_answers() -> None:
    question = question_about(segment(1), segment(2))
    settings: dict[str, Any] = {"error": 0.5, "first_bias": 0.5, "noise": 0.5, "malformed": 0.5}
    assert len({reply_to(question, **settings) for _ in range(5)}) == 1


class Tally(NamedTuple):
    """Labels of many pairs whose segments differ."""

    labelled: float
    """Share with a label."""
    wrong: float
    """Share of labels that name the worse segment."""
    labels: int


@cache
def tally(double_check: bool, error: float, first_bias: float, noise: float) -> Tally:
    """Judge PAIRS pairs by dialogue and teacher; the better segment comes first in half of them."""
    settings = Llm(double_check=double_check, augment="none")
    teacher, labels, wrong = settings.spawn(NOWHERE), 0, 0
    ask = Direct(error=error, first_bias=first_bias, noise=noise)

    async def judge_all() -> list[Verdict]:
        dialogue = PairDialogue(settings, PUSH, "press the button")
        verdicts = []
        for number in range(PAIRS):
            near, far = segment(number, nearer=0.9), segment(number)
            segments = np.stack([near, far] if number % 2 else [far, near])
            value, _ = dialogues.unwrap_answer(await dialogue({"segments": segments}, None, ask))
            verdicts.append(teacher.verdict(Pair(0, number, segments, np.zeros((2, 4))), value))
        return verdicts

    for number, judgement in enumerate(asyncio.run(judge_all())):
        if judgement.label is not None:
            labels += 1
            wrong += judgement.label != 1 - number % 2
    return Tally(labels / PAIRS, wrong / labels, labels)


def near(share: float, count: int, probability: float) -> bool:
    """Whether a share is likely under a probability: fixed draws, an error in one case of a million."""
    low, high = binom.interval(1 - 1e-6, count, probability)
    return low <= round(share * count) <= high


def test_asking_in_both_orders_removes_what_the_order_decides_and_leaves_misjudgement() -> None:
    """One question errs with b / 2 + (1 - b) e; of two, b contradict each other and the rest err with e."""
    error, bias = 0.1, 0.4
    once, twice = tally(False, error, bias, 0.0), tally(True, error, bias, 0.0)
    assert once.labelled == 1 and near(once.wrong, once.labels, bias / 2 + (1 - bias) * error)
    assert near(twice.labelled, PAIRS, 1 - bias) and near(twice.wrong, twice.labels, error)
    assert twice.wrong < once.wrong - 0.08


def test_a_check_in_both_orders_finds_no_misjudgement() -> None:
    once, twice = tally(False, 0.3, 0.0, 0.0), tally(True, 0.3, 0.0, 0.0)
    assert once == twice and near(once.wrong, PAIRS, 0.3) and once.labelled == 1


def test_independent_noise_is_removed_by_definition() -> None:
    """Two independent answers that agree are both wrong with n² / (n² + (1 - n)²): this says nothing of a real model,
    so the noise is off unless asked for."""
    noise = 0.3
    once, twice = tally(False, 0.0, 0.0, noise), tally(True, 0.0, 0.0, noise)
    both = noise**2 / (noise**2 + (1 - noise) ** 2)
    assert near(once.wrong, PAIRS, noise) and near(twice.wrong, twice.labels, both)
    assert near(twice.labelled, PAIRS, noise**2 + (1 - noise) ** 2) and Scripted().noise == 0


@pytest.mark.parametrize("coordinates", [PUSH, REACH], ids=["object", "no object"])
def test_the_whole_dialogue_ends_with_an_imagined_segment_that_reaches_the_target(
    coordinates: tuple[Coordinates, ...],
) -> None:
    segments = np.stack([segment(1, 10, coordinates), segment(1, 10, coordinates, nearer=0.9)])
    value = talk(segments, Direct(**SURE), coordinates=coordinates)
    judgement = judged(segments, value)
    assert judgement.label == 1.0 and judgement.notes == {"first": 2, "second": 1, "retries": 0, "imagined": "kept"}
    imagined = judgement.imagined
    assert imagined is not None and np.array_equal(imagined[0], segments[1, 0])
    points = trajectories.named_points(coordinates, imagined)
    for name in ("tcp", "obj") if coordinates is PUSH else ("tcp",):
        assert np.allclose(points[name][-1], points["target"], atol=1e-4)
    paces = np.linalg.norm(np.diff(points["tcp"], axis=0), axis=1)
    assert paces.max() < 1.1 * paces.sum() / len(paces), "at one speed"
    if coordinates is PUSH:
        gap = np.linalg.norm(points["tcp"] - points["obj"], axis=1)
        moved = np.linalg.norm(points["obj"] - points["obj"][0], axis=1) > 2e-4
        assert gap[moved].max() < 2e-4 and moved.any(), "what it acts upon moves only in its grip"


def judged(segments: Array, value: Any) -> Verdict:
    return Llm().spawn(NOWHERE).verdict(Pair(0, 0, segments, np.zeros(segments.shape[:2])), value)


def test_what_it_spoils_is_found_counted_and_mended_by_a_reminder() -> None:
    outcomes, imagined, retries = [], [], []
    for seed in range(60):
        segments = np.stack([segment(seed, nearer=0.9), segment(seed)])
        judgement = judged(segments, talk(segments, Direct(**SURE, malformed=0.4)))
        outcomes.append(judgement.outcome)
        imagined.append(judgement.notes.get("imagined"))
        retries.append(judgement.notes["retries"])
    assert set(outcomes) == {"labelled", "unreadable"} and {"kept", "unreadable", "length", "shape"} <= {*imagined}
    assert max(retries) == 3 and outcomes.count("labelled") > 30


@pytest.mark.parametrize(
    "text",
    [
        "Hello?",
        "",
        '{"tcp": [[1], [2]], "obj": [[1], [2], [3]]}',
        '{"tcp": 1} {"tcp": [[1, 2], [3]]}',
        '{"tcp": [["a"]]}',
        "{{" * 500,
    ],
)
def test_what_it_cannot_follow_it_says(text: str) -> None:
    assert "I find neither" in reply_to(text)


def test_nothing_to_measure_by_is_no_difference() -> None:
    trajectory = '{"tcp": [[0.1, 0.2], [0.3, 0.4]]}'
    assert answer(f"{trajectory} {trajectory}", **SURE) == 0


def test_behind_the_interface_of_a_model_it_answers_chats_alone() -> None:
    call = ChatCall((Message("user", (question_about(segment(1, nearer=0.9), segment(1)),)),))

    async def run() -> None:
        with ThreadPoolExecutor(1) as hand:
            model = ScriptedModel("chat 'scripted'", ("chat",), lambda: Scripted(**SURE).spawn(NOWHERE, ""), hand)
            reply = await model.answer(call)
            assert reply.value.endswith("\n1") and reply.usage.calls == model.estimate(call).calls == 1
            assert math.isclose(reply.usage.usd, 0) and reply.usage.tokens_in == 0
            with pytest.raises(UserError, match="answers chat, not embed"):
                await model.answer(EmbedCall(("a",)))
            await model.close()

    asyncio.run(run())


def test_it_reads_the_prompts_of_its_teacher_alone() -> None:
    assert Scripted().fits(cell_view({"teacher": Llm()}, "push")) == ""
    assert "prompts of teacher 'llm'" in Scripted().fits(cell_view({"teacher": object()}, "push"))


def test_a_pair_of_walks_is_no_tie() -> None:
    assert answer(question_about(*pair(3)), **SURE) in (1, 2)
