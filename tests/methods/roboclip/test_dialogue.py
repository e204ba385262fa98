"""The reward of a video against values worked by hand, and the calls of a dialogue with a real, tiny X-CLIP."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Answer, Call, EmbedCall, VideoCall
from guidebench.harness.plan.arrays import Declared, fitted
from guidebench.methods.roboclip import CROP, REWARD
from guidebench.methods.roboclip.dialogue import VideoText, reward
from tests.methods import local

FRAMES = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)


def test_the_reward_is_the_dot_product_and_lengths_count() -> None:
    video, text = np.array([1, 2, -3], np.float32), np.array([4, 0.5, 1], np.float32)
    assert reward(video, text, "dot") == 4 + 1 - 3
    assert reward(10 * video, text, "dot") == 20
    assert reward(10 * video, text, "cosine") == pytest.approx(2 / np.sqrt(14 * 17.25))
    assert np.isnan(reward(0 * video, text, "cosine")) and reward(0 * video, text, "dot") == 0
    with pytest.raises(UserError, match=r"a text into 2 numbers and a video into 3, .* such as xclip"):
        reward(np.ones(3), np.ones(2), "dot")


class FixedVectors:
    """A model that answers with fixed vectors and fails at the call of this number."""

    def __init__(self, video: Any, failing: int | None = None) -> None:
        self._video, self._failing = video, failing
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Answer:
        self.calls.append(call)
        if len(self.calls) - 1 == self._failing:
            return Answer(None, "timeout")
        return Answer(np.array([[2.0, 3.0]], np.float32) if isinstance(call, EmbedCall) else self._video)


def test_it_asks_for_the_text_and_for_the_cropped_video_and_ends_with_one_number() -> None:
    """The crop leaves the paper's 250 of 480 rows."""
    model = FixedVectors(np.array([5.0, -1.0], np.float32))
    dialogue = VideoText("the door is open", 0.25, "dot")
    assert asyncio.run(dialogue(None, FRAMES, model)).tolist() == [7]
    text, video = model.calls
    assert isinstance(text, EmbedCall) and text.items == ("the door is open",)
    assert isinstance(video, VideoCall) and np.array_equal(video.frames, FRAMES[:, 2:6, 2:6])
    assert len(model.calls) == dialogue.calls
    model = FixedVectors(np.zeros(2, np.float32))
    frames = np.zeros((1, 480, 480, 3), np.uint8)
    frames[:, 115:365, 115:365] = 1  # center 240, 250 pixels
    asyncio.run(VideoText("a", CROP, "dot")(None, frames, model))
    assert model.calls[1].frames.shape == (1, 250, 250, 3) and (model.calls[1].frames == 1).all()


def test_failed_calls_leave_no_reward_and_a_vector_without_a_direction_no_cosine() -> None:
    for failing in (0, 1):
        assert asyncio.run(VideoText("a", 0.0, "dot")(None, FRAMES, FixedVectors(np.ones(2), failing))) is None
    declared = Declared(REWARD, "guide 'roboclip'", "embedder")
    answer = asyncio.run(VideoText("a", 0.0, "cosine")(None, FRAMES, FixedVectors(np.zeros(2, np.float32))))
    assert fitted(answer, declared, 1) == (None, "video_reward holds a number that is not finite")


def test_with_a_real_x_clip_it_is_the_product_of_its_features(tiny: Callable[..., Path]) -> None:
    videos = np.random.default_rng(0).integers(0, 256, (2, 9, 40, 40, 3), dtype=np.uint8)

    async def all_of_it(ask: Any) -> tuple[list[Any], Any, list[Any]]:
        rewards = [await VideoText("a robot", 0.0, "dot")(None, video, ask) for video in videos]
        text = (await ask(EmbedCall(("a robot",)))).value[0]
        return rewards, text, [(await ask(VideoCall(video))).value for video in videos]

    rewards, text, vectors = local.converse(local.transformers(tiny("xclip")), all_of_it)
    assert np.concatenate(rewards) == pytest.approx([vector @ text for vector in vectors], rel=1e-5)
    assert rewards[0] != rewards[1]
