"""Places from points of an image, and the order of movements."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import Answer, Call
from guidebench.methods.moka import OpenLoop, motion
from guidebench.methods.moka.agent import OpenLoopAgent
from guidebench.methods.moka.dialogue import PathDialogue
from guidebench.suites.bin_sorting import BinSorting
from tests.methods.kagi.scenes import QUESTION
from tests.methods.kagi.test_dialogue import ANSWER, FRAMES, REPLY

SUITE = BinSorting(observation="state")


@pytest.mark.parametrize("camera", ["top", "side"])
def test_a_place_is_found_again_from_where_a_camera_shows_it(camera: str) -> None:
    places = np.array([[0.42, 0.0, 0.02], [0.45, 0.24, 0.02], [0.38, -0.2, 0.02]])
    points = SUITE.project("forward", camera, places, 1)
    assert np.allclose(motion.placed(SUITE, "forward", camera, points, 0.02), places, atol=1e-5)


def test_the_middle_of_the_view_from_above_is_below_the_camera_and_above_the_horizon_is_no_place() -> None:
    """The camera stands at (.40, 0) and looks straight down; at half its distance from the ground, a point that is
    off the middle is half as far away as on the ground."""
    assert np.allclose(motion.placed(SUITE, "forward", "top", np.array([[0.5, 0.5]]), 0.0), [[0.4, 0.0, 0.0]])
    low, high = (motion.placed(SUITE, "forward", "top", np.array([[0.7, 0.4]]), height)[0, :2] - [0.4, 0.0]
                 for height in (0.0, 1.05 / 2))  # fmt: skip
    assert np.allclose(low, 2 * high)
    with pytest.raises(UserError, match=r"no place at a height of 0 m is where the camera 'side' shows"):
        motion.placed(SUITE, "forward", "side", np.array([[0.5, -3.0]]), 0.0)


def test_movements_go_over_things_and_down_to_them() -> None:
    legs = motion.legs(np.array([0.4, 0.0, 0.02]), [np.array([0.4, 0.1, 0.0])], np.array([0.4, 0.24, 0.05]), 0.12, 3)
    assert [(*leg.place.round(2), leg.closed, leg.wait) for leg in legs] == [
        (0.4, 0.0, 0.12, False, 0), (0.4, 0.0, 0.02, False, 0), (0.4, 0.0, 0.02, True, 3), (0.4, 0.0, 0.12, True, 0),
        (0.4, 0.1, 0.12, True, 0), (0.4, 0.24, 0.12, True, 0), (0.4, 0.24, 0.05, True, 0),
        (0.4, 0.24, 0.05, False, 3), (0.4, 0.24, 0.12, False, 0),
    ]  # fmt: skip


def test_waypoints_between_grasp_and_target_are_followed() -> None:
    path = np.array(
        [[0.1, 0.1, 0.5], [0.5, 0.5, 0.9], [0.5, 0.5, 0.5], [0.6, 0.5, 0.5], [0.9, 0.5, 0.5], [0.9, 0.5, 0.8]]
    )
    between = motion.along(path, np.array([0.52, 0.5]), np.array([0.88, 0.5]))
    assert np.allclose(between, [[0.5, 0.5], [0.6, 0.5]])
    assert motion.along(path[:2], np.array([0.5, 0.5]), np.array([0.1, 0.1])).shape == (0, 2)


def test_an_answer_whose_points_are_at_no_place_gives_no_movement() -> None:
    """A camera that looks over the table shows the sky in its upper rows."""
    agent = OpenLoopAgent.__new__(OpenLoopAgent)
    agent.config, agent.task, agent.suite = OpenLoop(), "forward", Sideways()
    low = {"grasp": [[0.5, 0.6]], "target": [[0.6, 0.7]]}
    answer = {"grasp": 1, "target": 1, "waypoints": [[0.5, 0.6, 0.5], [0.6, 0.7, 0.5]]}
    assert len(agent.legs(low, answer)) == 8
    assert agent.legs({**low, "grasp": [[0.5, -3.0]]}, answer) == [] == agent.legs(low, None)


def test_a_path_that_cannot_be_followed_counts_as_unanswered() -> None:
    content = json.loads(QUESTION.content())

    async def ask(call: Call) -> Answer:
        return Answer(json.dumps(REPLY))

    def converse(legs: list[int]) -> Any:
        return asyncio.run(PathDialogue(0, lambda keypoints, answer: legs)(content, FRAMES, ask))

    assert converse([]) == Unusable(converse([1])) and converse([1])["grasp"] == ANSWER["grasp"]


class Sideways:
    """The suite as if its side view were the one from above."""

    def cameras_of(self, task: str) -> tuple[str, ...]:
        return ("side",)

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        return SUITE.project(task, camera, points, size)
