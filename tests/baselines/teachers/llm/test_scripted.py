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
from guidebench.harness.models.calls import Call, CallResult, ChatCall, EmbedCall, Message
from tests.baselines.teachers.llm.talking import PUSH, REACH, pair, segment, talk
from tests.cell_views import cell_view
from tests.harness.models import conversing

NOWHERE: Any = None
"""It is given the suite, as every scripted part, and looks at nothing of it."""
PAIRS = 160
SURE: dict[str, Any] = {"error": 0.0, "first_bias": 0.0, "noise": 0.0}


def asked(one: Array, other: Array, things: tuple[Coordinates, ...] = PUSH) -> str:
    values = {name: trajectories.text(trajectories.named_points(things, shown), 4) for name, shown in
              (("trajectory_1", one), ("trajectory_2", other))}  # fmt: skip
    return filled(prompts.PROMPT, values)


def said(question: str, **settings: Any) -> str:
    return Scripted(**settings).spawn(NOWHERE, "")((Message("user", (question,)),))


def answer(question: str, **settings: Any) -> int:
    return verdict(said(question, **settings))


class Direct:
    """The scripted chat as the calls of a dialogue reach it."""

    def __init__(self, **settings: Any) -> None:
        self._chat = Scripted(**settings).spawn(NOWHERE, "")
        self.calls = 0

    async def __call__(self, call: Call) -> CallResult:
        assert isinstance(call, ChatCall)
        self.calls += 1
        return CallResult(self._chat(call.messages))


@pytest.mark.parametrize("things", [PUSH, REACH], ids=["object", "no object"])
def test_it_prefers_what_is_nearer_and_reasons_in_words(things: tuple[Coordinates, ...]) -> None:
    near, far = segment(1, things=things, nearer=0.9), segment(1, things=things)
    assert answer(asked(near, far, things), **SURE) == 1 and answer(asked(far, near, things), **SURE) == 2
    text = said(asked(near, far, things), **SURE)
    told = trajectories.named_points(things, near)
    goal = told["obj"] if things is PUSH else told["target"]
    distance = float(np.linalg.norm(np.round(told["tcp"], 4) - np.round(goal, 4), axis=1).mean())
    assert f"In Trajectory 1 tcp is {distance:.4f} from {'obj' if things is PUSH else 'target'} on average" in text
    assert text.splitlines()[-1] == "1" and "Trajectory 1 furthers the task more" in text


def test_it_sees_no_difference_below_its_threshold() -> None:
    one, other = segment(1), segment(1)
    other[:, 0] += 0.0005
    assert answer(asked(one, other), **SURE) == 0 and answer(asked(one, other), **SURE, equal=0.0) in (1, 2)
    assert answer(asked(one, other), error=1.0, first_bias=0.0) == 0, "there is nothing to misjudge"
    assert answer(asked(one, other), first_bias=1.0) == 1, "the order still decides"


def test_equal_questions_get_equal_answers() -> None:
    question = asked(segment(1), segment(2))
    settings: dict[str, Any] = {"error": 0.5, "first_bias": 0.5, "noise": 0.5, "malformed": 0.5}
    assert len({said(question, **settings) for _ in range(5)}) == 1


class Tally(NamedTuple):
    """Of many pairs that differ."""

    kept: float
    """Share with a label."""
    wrong: float
    """Share of labels that name the worse segment."""
    labels: int


@cache
def tally(double_check: bool, error: float, first_bias: float, noise: float) -> Tally:
    """Over PAIRS pairs, the better one first in half of them, through dialogue and teacher."""
    settings = Llm(double_check=double_check, augment="none")
    teacher, labels, wrong = settings.spawn(NOWHERE), 0, 0
    ask = Direct(error=error, first_bias=first_bias, noise=noise)

    async def asked() -> list[Verdict]:
        dialogue = PairDialogue(settings, PUSH, "press the button")
        found = []
        for number in range(PAIRS):
            near, far = segment(number, nearer=0.9), segment(number)
            segments = np.stack([near, far] if number % 2 else [far, near])
            value, _ = conversing.said(await dialogue({"segments": segments}, None, ask))
            found.append(teacher.verdict(Pair(0, number, segments, np.zeros((2, 4))), value))
        return found

    for number, given in enumerate(asyncio.run(asked())):
        if given.label is not None:
            labels += 1
            wrong += given.label != 1 - number % 2
    return Tally(labels / PAIRS, wrong / labels, labels)


def near(share: float, count: int, probability: float) -> bool:
    """Whether a share is what a probability may give; wrong in one case of a million, and the draws are fixed."""
    low, high = binom.interval(1 - 1e-6, count, probability)
    return low <= round(share * count) <= high


def test_asking_in_both_orders_removes_what_the_order_decides_and_leaves_misjudgement() -> None:
    """One question errs with b / 2 + (1 - b) e; of two, b contradict each other and the rest err with e."""
    error, bias = 0.1, 0.4
    once, twice = tally(False, error, bias, 0.0), tally(True, error, bias, 0.0)
    assert once.kept == 1 and near(once.wrong, once.labels, bias / 2 + (1 - bias) * error)
    assert near(twice.kept, PAIRS, 1 - bias) and near(twice.wrong, twice.labels, error)
    assert twice.wrong < once.wrong - 0.08


def test_a_check_in_both_orders_finds_no_misjudgement() -> None:
    once, twice = tally(False, 0.3, 0.0, 0.0), tally(True, 0.3, 0.0, 0.0)
    assert once == twice and near(once.wrong, PAIRS, 0.3) and once.kept == 1


def test_independent_noise_is_removed_by_definition() -> None:
    """Two independent answers that agree are both wrong with n² / (n² + (1 - n)²): this says nothing of a real model,
    so the noise is off unless asked for."""
    noise = 0.3
    once, twice = tally(False, 0.0, 0.0, noise), tally(True, 0.0, 0.0, noise)
    both = noise**2 / (noise**2 + (1 - noise) ** 2)
    assert near(once.wrong, PAIRS, noise) and near(twice.wrong, twice.labels, both)
    assert near(twice.kept, PAIRS, noise**2 + (1 - noise) ** 2) and Scripted().noise == 0


@pytest.mark.parametrize("things", [PUSH, REACH], ids=["object", "no object"])
def test_the_whole_dialogue_ends_with_an_imagined_segment_that_reaches_the_target(
    things: tuple[Coordinates, ...],
) -> None:
    segments = np.stack([segment(1, 10, things), segment(1, 10, things, nearer=0.9)])
    value = talk(segments, Direct(**SURE), things=things)
    found = judged(segments, value)
    assert found.label == 1.0 and found.notes == {"first": 2, "second": 1, "retries": 0, "imagined": "kept"}
    imagined = found.imagined
    assert imagined is not None and np.array_equal(imagined[0], segments[1, 0])
    told = trajectories.named_points(things, imagined)
    for name in ("tcp", "obj") if things is PUSH else ("tcp",):
        assert np.allclose(told[name][-1], told["target"], atol=1e-4)
    paces = np.linalg.norm(np.diff(told["tcp"], axis=0), axis=1)
    assert paces.max() < 1.1 * paces.sum() / len(paces), "at one speed"
    if things is PUSH:
        gap = np.linalg.norm(told["tcp"] - told["obj"], axis=1)
        moved = np.linalg.norm(told["obj"] - told["obj"][0], axis=1) > 2e-4
        assert gap[moved].max() < 2e-4 and moved.any(), "what it acts upon moves only in its grip"


def judged(segments: Array, value: Any) -> Verdict:
    return Llm().spawn(NOWHERE).verdict(Pair(0, 0, segments, np.zeros(segments.shape[:2])), value)


def test_what_it_spoils_is_found_counted_and_mended_by_a_reminder() -> None:
    outcomes, imagined, retries = [], [], []
    for seed in range(60):
        segments = np.stack([segment(seed, nearer=0.9), segment(seed)])
        found = judged(segments, talk(segments, Direct(**SURE, malformed=0.4)))
        outcomes.append(found.outcome)
        imagined.append(found.notes.get("imagined"))
        retries.append(found.notes["retries"])
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
    assert "I find neither" in said(text)


def test_nothing_to_measure_by_is_no_difference() -> None:
    shown = '{"tcp": [[0.1, 0.2], [0.3, 0.4]]}'
    assert answer(f"{shown} {shown}", **SURE) == 0


def test_behind_the_interface_of_a_model_it_answers_chats_alone() -> None:
    call = ChatCall((Message("user", (asked(segment(1, nearer=0.9), segment(1)),)),))

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
    assert answer(asked(*pair(3)), **SURE) in (1, 2)
