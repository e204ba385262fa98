from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from guidebench.harness.interfaces import ReadsPrompts
from guidebench.suites.bin_sorting import BinDrawing, BinSorting, ScriptedClassifier
from guidebench.suites.bin_sorting.classifier import FACE, _unprojected, blob, named
from tests.refusals import check_refused

SUITE = BinSorting(observation="state")


@pytest.fixture(scope="module")
def draw() -> Any:
    return BinDrawing(camera="both").spawn("forward")


def judgements(judge: ReadsPrompts, draw: Any, episode: Any, instruction: str) -> list[float]:
    return [judge.judge(frame[None], instruction) for frame in draw(episode.snapshot[1::2])]


def test_a_demonstration_is_no_success_until_the_gripper_has_left_the_block_in_its_place(draw: Any) -> None:
    judge = ScriptedClassifier().spawn(SUITE, "forward")
    for task in ("forward", "backward", "other"):
        episode = SUITE.demonstrate(task, 3)
        assert episode is not None
        answers = np.array(judgements(judge, draw, episode, SUITE.instruction_at(task, episode.snapshot[0]))) > 0
        assert not answers[~episode.success[1::2]].any()
        assert answers[-5:].all()


@pytest.mark.parametrize("failure", ["miss", "drop", "wrong place"])
def test_failures_are_no_success(draw: Any, failure: str) -> None:
    judge = ScriptedClassifier().spawn(SUITE, "forward")
    episode = SUITE.fail("forward", 4, failure)
    assert episode is not None
    assert not any(judgements(judge, draw, episode, SUITE.instruction_at("forward", episode.snapshot[0])))


def test_it_errs_at_the_stated_rates_and_alike_for_the_same_frame(draw: Any) -> None:
    episode = SUITE.demonstrate("forward", 3)
    assert episode is not None
    instruction = SUITE.instruction_at("forward", episode.snapshot[0])
    right = np.array(judgements(ScriptedClassifier().spawn(SUITE, "forward"), draw, episode, instruction))
    wrong = ScriptedClassifier(false_positive=1.0, false_negative=1.0).spawn(SUITE, "forward")
    assert judgements(wrong, draw, episode, instruction) == (1 - right).tolist()
    judge = replace(ScriptedClassifier(), false_positive=0.5).spawn(SUITE, "forward")
    first, second = (judgements(judge, draw, episode, instruction) for _ in range(2))
    assert first == second
    assert 0 < np.array(first)[right == 0].sum() < (right == 0).sum()


@pytest.mark.parametrize(
    ("prompt", "meaning"),
    [
        ("put the red block into the left bin", ("red", "left bin")),
        ("take the green block out of the right bin and put it on the tray", ("green", "tray")),
        ("move the orange block to the far side of the tray", ("orange", "far side")),
    ],
)
def test_a_prompt_names_a_colour_and_a_place(prompt: str, meaning: tuple[str, str]) -> None:
    assert named(prompt) == meaning


@pytest.mark.parametrize(
    ("prompt", "lacks"), [("put the pink block into the left bin", "colour"), ("lift the red block", "place")]
)
def test_a_prompt_without_a_known_colour_or_place_is_refused(prompt: str, lacks: str) -> None:
    check_refused(f"finds no {lacks} in .*it knows the colours red, green", named, prompt)


def test_a_frame_of_one_view_is_refused() -> None:
    check_refused(
        r"100 × 100 pixels .* set drawing\.camera=both",
        ScriptedClassifier().spawn(SUITE, "forward").judge,
        np.zeros((1, 100, 100, 3), np.uint8),
        "the red block, tray",
    )


def test_a_blob_is_its_colours_pixels_and_nothing_elses() -> None:
    view = np.full((50, 50, 3), (25, 32, 52), np.uint8)
    view[10:14, 20:30] = (220, 40, 40)
    view[30:34, 20:30] = (60, 90, 230)
    assert blob(view, "red").pixels == 4 * 10 * 4
    assert blob(view, "red").centre.tolist() == [0.5, 0.24]
    assert blob(view, "orange").pixels == 0


def test_the_point_that_a_pixel_shows_is_the_point_that_projects_there() -> None:
    point = np.array([[0.45, 0.2, 0.04]])
    assert _unprojected(SUITE.project("forward", "top", point, 1)[0], 0.04) == pytest.approx(point[0, :2])
    assert pytest.approx((0.04 * 100 / (2 * 1.01 * np.tan(np.radians(19)))) ** 2, rel=1e-6) == FACE
