"""The oracles answer as segmenter and model would, and err by one tile or take thing and place for each other."""

import json
from typing import Any

import numpy as np
import pytest

from guidebench.harness.interfaces import Question
from guidebench.methods.kagi import questions
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.chats import OracleWaypoints
from guidebench.methods.kagi.segmenters import OracleSegmenter
from tests.methods.kagi.scenes import ASKED

PLACES = [[0.40, 0.60, 0.70], [0.15, 0.50, 0.70]]
BLOCKS = [["c4", 3], ["c4", 2], ["b4", 3], ["a4", 3], ["a4", 2]]
"""The thing is in c4, the place in a4, both nearest to line 2: (1 - .7) * 6 = 1.8."""


def ask(places: Any = PLACES, about: questions.WaypointQuestion = ASKED, error: float = 0.0, seed: int = 0) -> Any:
    measured = np.array(places, np.float32)
    nothing = np.zeros((1, 0), bool)
    question = Question(0, np.zeros(1, np.int64), None, nothing, about.content(), "waypoints", measures=measured)
    oracle = OracleWaypoints(error=error).spawn(None, "forward")  # type: ignore[arg-type]
    return json.loads(json.dumps(oracle(question, np.random.default_rng(seed))))


def test_it_answers_what_the_dialogue_would_return_with_the_nearest_points() -> None:
    blocks = [(tile, line) for tile, line in BLOCKS]
    assert ask() == json.loads(json.dumps(questions.answer(5, 5, blocks, Grid(6))))  # type: ignore[arg-type]
    found = ask([[0.415, 0.6, 0.7], [0.2, 0.44, 0.7]])
    assert (found["grasp"], found["target"]) == (3, 2)


def test_it_takes_the_grid_the_views_and_the_grippers_place_of_the_question() -> None:
    flat = ask(about=ASKED._replace(grid=Grid(4, heights=False)))
    assert flat["blocks"] == [["b3", None], ["a3", None]] and flat["waypoints"] == [[0.375, 0.625], [0.125, 0.625]]
    begun = ask(about=ASKED._replace(start=[0.5, 0.75, 0.3]))
    assert begun["blocks"] == [["d5", 4], *BLOCKS]


def test_places_outside_the_views_become_the_nearest_block_and_unknown_ones_no_answer() -> None:
    assert ask([[1.3, 0.6, 0.7], [0.15, -0.2, 1.4]])["blocks"][-1] == ["a1", 0]
    assert ask([[np.nan, 0.6, 0.7], PLACES[1]]) is None


def test_errors_shift_the_path_by_one_tile_at_the_stated_rate() -> None:
    wrong = [blocks for seed in range(200) if (blocks := ask(error=0.3, seed=seed)["blocks"]) != BLOCKS]
    assert abs(len(wrong) / 200 - 0.3) < 3 * np.sqrt(0.21 / 200)
    ends = {(blocks[1][0], blocks[-1][0]) for blocks in wrong}
    assert ends == {("d4", "b4"), ("c3", "a3"), ("c5", "a5")}, "not to the left, where the place would leave the view"
    assert len(ask([[0.0, 0.0, 0.5], [1.0, 1.0, 0.5]], error=1.0)["blocks"]) >= 2, "no shift keeps both in the view"
    assert ask(error=1.0, seed=7) == ask(error=1.0, seed=7)
    assert ask(error=1.0)["grasp"] == 5, "the points are selected as without the error"
    assert pytest.approx(ask()["waypoints"][1]) == [2.5 / 6, 3.5 / 6, 4 / 6]


def points(places: Any = PLACES, error: float = 0.0, seed: int = 0) -> Any:
    question = Question(
        0, np.zeros(2, np.int64), None, np.zeros((1, 0), bool), '{"instruction": ""}', "segmenter",
        measures=np.array(places, np.float32),
    )  # fmt: skip
    oracle = OracleSegmenter(error=error).spawn(None, "forward")  # type: ignore[arg-type]
    return oracle(question, np.random.default_rng(seed))


def test_keypoints_are_the_place_and_four_points_around_it_in_the_view_or_those_of_the_other() -> None:
    """Thing and place are taken for each other at the stated rate."""
    found = points([[0.40, 0.60, 0.70], [0.99, 0.01, 0.70]])
    assert found["grasp"] == [[0.4, 0.6], [0.38, 0.6], [0.42, 0.6], [0.4, 0.58], [0.4, 0.62]]
    assert found["target"] == [[0.99, 0.01], [0.97, 0.01], [1, 0.01], [0.99, 0], [0.99, 0.03]] and found["objects"] == 2
    wrong = [points(error=0.3, seed=seed)["grasp"][0] == [0.15, 0.5] for seed in range(200)]
    assert abs(np.mean(wrong) - 0.3) < 3 * np.sqrt(0.21 / 200)


@pytest.mark.parametrize("shown", [1.01, -0.01, np.nan, np.inf])
def test_what_the_view_from_above_does_not_show_has_no_keypoints(shown: float) -> None:
    assert points([[0.4, shown, 0.7], PLACES[1]]) is None
