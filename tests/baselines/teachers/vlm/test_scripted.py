"""The hand-written chat of teacher `vlm`: what it sees in two frames, how often it errs, and that it is understood."""

import asyncio
from typing import Any

import numpy as np
import pytest

from guidebench.baselines.teachers.vlm import ScriptedVlm, Vlm
from guidebench.baselines.teachers.vlm.dialogue import ImageDialogue
from guidebench.baselines.teachers.vlm.scripted import LOST, spread
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Answer, ChatCall, ChoiceCall, Message
from guidebench.harness.models.choosing import ByChoice

NOWHERE: Any = None


def frame(*columns: int, colour: tuple[int, int, int] = (255, 0, 0)) -> Array:
    """Return a grey frame of 10 × 10 pixels with coloured pixels in these columns of the fifth row."""
    image = np.full((10, 10, 3), 90, np.uint8)
    image[4, list(columns)] = colour
    return image


def preferred(first: Array, second: Array, answer: Any = "text", **settings: float) -> Any:
    """Return the verdict of the teacher's dialogue, which asks in both orders, on the chat's answers in a form."""
    config = ScriptedVlm(answer=answer, **{"error": 0.0, **settings})
    chat = config.spawn(NOWHERE, "")

    async def ask(call: Any) -> Answer:
        assert isinstance(call, ChatCall if answer == "text" else ChoiceCall)
        return Answer(call.answered_by(chat))

    dialogue: Any = ImageDialogue(Vlm(double_check=True), "move the ball to the target")
    dialogue = ByChoice(dialogue, config) if answer == "choice" else dialogue
    return asyncio.run(dialogue(None, np.stack([first, second]), ask))


def test_the_spread_is_the_distance_of_coloured_pixels_from_their_centre_in_sides_of_the_frame() -> None:
    assert spread(frame(2, 6)) == pytest.approx(0.2), "two pixels that are four apart lie two from their centre"
    assert spread(frame(5)) == 0.0
    assert spread(frame(2, 6, colour=(127, 0, 0))) != spread(frame(2, 6)), "a saturation of 127 of 255 is no colour"
    assert np.isnan(spread(frame()))


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        (frame(2, 4), frame(2, 8), 1),
        (frame(2, 8), frame(2, 4), 2),
        (frame(2, 4), frame(5, 7), 0),
        (frame(2, 4), frame(), 0),
    ],
)
def test_the_frame_whose_coloured_things_lie_closer_together_is_preferred_in_both_orders(
    first: Array, second: Array, label: int
) -> None:
    verdict = preferred(first, second)
    assert verdict["first"] == label and verdict["retries"] == 0
    assert verdict["outcome"] == ("labelled" if label else "equal")
    assert preferred(first, second, "choice") == verdict


def test_it_errs_on_the_share_of_pairs_that_is_set_and_alike_in_both_orders() -> None:
    """Of 200 pairs, 0.3 are expected wrong; the bounds are four standard deviations wide."""
    wrong = 0
    for number in range(200):
        near, far = frame(2, 4), frame(2, 8)
        near[0, 0, 0] = far[0, 0, 0] = number // 2  # another grey, which makes another pair
        near[0, 1, 1] = number
        verdict = preferred(near, far, error=0.3)
        assert verdict["outcome"] == "labelled", "an inconsistent pair would be discarded"
        wrong += verdict["first"] == 2
    assert abs(wrong - 60) < 4 * np.sqrt(200 * 0.3 * 0.7)


def test_what_it_cannot_read_it_does_not_label() -> None:
    chat = ScriptedVlm().spawn(NOWHERE, "")
    assert chat((Message("user", ("Which of the two is better?",)),)) == LOST
