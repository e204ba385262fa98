"""Definition 1 against values worked by hand, and the calls of a dialogue with a real, tiny CLIP."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.frame_rewards import REWARD
from guidebench.harness.models.calls import Answer, Call, EmbedCall
from guidebench.harness.plan.arrays import Declared, fitted
from guidebench.methods.vlm_rm.dialogue import GoalBaseline, reward
from tests.methods import local
from tests.refusals import check_refused

GOAL, BASELINE = np.array([1.0, 0.0]), np.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("alpha", "rewards"),
    [
        # Images at the goal, at the baseline, opposite to each; L goes through (1, 0) and (0, 1).
        (0.0, [1, 0, -1, 0]),  # cosines with the goal
        (1.0, [1, 0, 0, 1]),  # (-1, 0) falls onto (0, 1), which is sqrt 2 from the goal; (0, -1) onto the goal itself
        (0.5, [1, 0, -0.25, 0.75]),  # off the goal by (-1.5, .5), and by (-.5, -.5)
    ],
)
def test_rewards_are_those_of_definition_1(alpha: float, rewards: list[float]) -> None:
    images = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float64)
    assert reward(images, GOAL, BASELINE, alpha) == pytest.approx(rewards)
    assert reward(7 * images, 3 * GOAL, 2 * BASELINE, alpha) == pytest.approx(rewards), "lengths do not count"


def test_in_many_dimensions_it_is_the_projection_onto_the_line_as_the_definition_writes_it() -> None:
    random = np.random.default_rng(0)
    x, g, b = (
        v / np.linalg.norm(v, axis=-1, keepdims=True) for v in map(random.normal, [0] * 3, [1] * 3, [(5, 8), 8, 8])
    )
    onto = b + np.outer((x - b) @ (g - b) / ((g - b) @ (g - b)), g - b)
    expected = 1 - np.linalg.norm(0.3 * onto + 0.7 * x - g, axis=1) ** 2 / 2
    assert reward(x, g, b, 0.3) == pytest.approx(expected)


def test_texts_of_one_vector_and_spaces_that_differ_are_refused() -> None:
    check_refused(r"guide\.goal and guide\.baseline have the same vector", reward, np.ones((1, 2)), GOAL, GOAL, 0.5)
    assert reward(np.ones((1, 2)), GOAL, GOAL, 0.0) == pytest.approx([np.sqrt(0.5)])
    check_refused(
        "a text into 2 numbers and a frame into 3, which cannot be compared",
        reward,
        np.ones((1, 3)),
        GOAL,
        BASELINE,
        0.5,
    )


class FixedVectors:
    """A model that answers with fixed vectors and fails at the call of this number."""

    def __init__(self, images: Any, failing: int | None = None) -> None:
        self._images, self._failing = images, failing
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Answer:
        assert isinstance(call, EmbedCall)
        self.calls.append(call)
        if len(self.calls) - 1 == self._failing:
            return Answer(None, "timeout")
        texts = np.stack([GOAL, BASELINE])[: len(call.items)]
        return Answer(texts if isinstance(call.items[0], str) else self._images)


FRAMES = np.zeros((2, 4, 4, 3), np.uint8)


def test_it_asks_for_its_texts_and_for_all_frames_and_ends_with_a_number_for_each() -> None:
    for dialogue, items, rewards in (
        (GoalBaseline("done", "not yet", 0.5), ("done", "not yet"), [0, 0.75]),
        (GoalBaseline("done", "", 0.0), ("done",), [0, 0]),
    ):
        model = FixedVectors(np.array([[0.0, 2.0], [0.0, -1.0]], np.float32))
        assert asyncio.run(dialogue(None, FRAMES, model)) == pytest.approx(rewards)
        texts, frames = model.calls
        assert texts.items == items and len(frames.items) == 2 == dialogue.calls


def test_failed_calls_and_vectors_without_a_direction_leave_no_reward() -> None:
    for failing in (0, 1):
        assert asyncio.run(GoalBaseline("a", "b", 0.5)(None, FRAMES, FixedVectors(np.eye(2), failing))) is None
    declared = Declared(REWARD, "guide 'vlm_rm'", "embedder")
    with np.errstate(invalid="ignore"):
        for broken in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
            answer = asyncio.run(GoalBaseline("a", "b", 0.5)(None, FRAMES, FixedVectors(broken)))
            assert fitted(answer, declared, 2) == (None, "frame_reward holds a number that is not finite")


def test_with_a_real_clip_and_no_baseline_it_is_the_cosine_of_frame_and_text(tiny: Callable[..., Path]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 40, 56, 3), dtype=np.uint8)

    async def both(ask: Any) -> tuple[Any, Any, Any]:
        rewards = await GoalBaseline("the ball is there", "", 0.0)(None, frames, ask)
        text = (await ask(EmbedCall(("the ball is there",)))).value[0]
        return rewards, text, (await ask(EmbedCall(tuple(frames)))).value

    rewards, text, images = local.converse(local.transformers(tiny("clip")), both)
    cosines = images @ text / np.linalg.norm(images, axis=1) / np.linalg.norm(text)
    assert rewards == pytest.approx(cosines, abs=1e-5) and len(set(rewards)) == 3
