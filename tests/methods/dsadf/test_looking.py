"""Captions of steps and vectors of frames: classes worked by hand, and a real, tiny CLIP."""

import asyncio
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Answer, Call, EmbedCall
from guidebench.methods.dsadf.looking import UNCHANGED, FrameVector, StepCaption, changes, classes

BEFORE, AFTER = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 9, np.uint8)


class Vectors:
    """A model that answers texts and images with fixed vectors, or fails where they are None, and records its calls."""

    def __init__(self, texts: Any, images: Any) -> None:
        self.answers, self.heard = {"texts": texts, "images": images}, list[tuple[Any, ...]]()

    async def __call__(self, call: Call) -> Answer:
        assert isinstance(call, EmbedCall)
        self.heard.append(call.items)
        vectors = self.answers["texts" if isinstance(call.items[0], str) else "images"]
        return Answer(None, "timeout") if vectors is None else Answer(np.array(vectors, np.float32))


def test_a_class_scores_by_how_far_the_step_moves_towards_its_text() -> None:
    """Frames go from (1, 0) to (0, 1), by (-1, 1). The texts are (1, 0), (0, 2) of length 2, and (-1, 0), which are
    (-1, 1) and (-2, 0) from the first when they have length 1."""
    directions = classes(np.array([[1.0, 0], [0, 2], [-1, 0]]))
    assert directions.tolist() == [[0, 0], [-1, 1], [-2, 0]]
    assert changes(np.array([[3.0, 0], [0, 1]]), directions) == pytest.approx([0, 2, 2])
    assert changes(np.array([[1.0, 0], [0, 0]]), directions[:2]) == pytest.approx([0, 1])
    with pytest.raises(UserError, match=r"a text into 3 numbers and a frame into 2.*choose a captioner\.model"):
        changes(np.ones((2, 2)), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("after", "caption"),
    [
        ([0.0, 1.0], "chop tree"),  # (-1, 1)·(-1, 1) = 2, and (-1, 1)·(-1, -1) = 0
        ([0.0, -1.0], "mine stone"),
        ([1.0, 0.0], ""),  # the vectors of the frames are equal: no class is above 0
    ],
)
def test_the_best_class_is_the_caption(after: list[float], caption: str) -> None:
    says, ask = Vectors([[1, 0], [0, 1], [0, -1]], [[1, 0], after]), StepCaption(("chop tree", "mine stone"))
    first, again = (asyncio.run(ask("", np.stack([BEFORE, AFTER]), says)) for _ in range(2))
    assert first is not None and first["caption"] == caption and again == first
    texts, images, _ = says.heard  # the texts once, the frames for each step
    assert texts[0] == UNCHANGED and "chop tree" in texts[1] and len(texts) == 3 and len(images) == 2


def test_equal_frames_need_no_model_and_a_failed_call_has_no_answer() -> None:
    says, ask = Vectors(None, [[1, 0], [0, 1]]), StepCaption(("chop tree",))
    assert asyncio.run(ask("", np.stack([BEFORE, BEFORE]), says)) == {"caption": "", "score": 0.0} and not says.heard
    assert asyncio.run(ask("", np.stack([BEFORE, AFTER]), says)) is None
    assert asyncio.run(FrameVector()("", BEFORE[None], Vectors(None, None))) is None
