"""The tracker's dialogue over two views, the reward of the object's pixels, and the column beside a point."""

import asyncio
import functools
import json

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.interfaces import Array, Unusable
from guidebench.harness.models.calls import Answer, Call, TrackCall
from guidebench.methods.kagi.tracking import Tracking, column_beside, matrix, positions, to_follow, with_object
from tests.refusals import check_refused


def test_a_point_is_followed_in_both_views() -> None:
    frames = np.zeros((3, 10, 20, 3), np.uint8)
    frames[:, :, 10:] = 1
    calls: list[TrackCall] = []
    answers = [
        np.array([[2, 4, 1], [3, 4, 1], [4, 4, 1]], np.float32),
        np.array([[8, 5, 1], [0, 0, 0], [7, 2, 1]], np.float32),
    ]

    async def ask(call: Call) -> Answer:
        assert isinstance(call, TrackCall)
        calls.append(call)
        return Answer(answers[len(calls) - 1]) if len(calls) <= 2 else Answer(None, "timeout")

    content = {"instruction": "take it", "point": [0.25, 0.5], "side": [0.75, 0.5]}
    answer = asyncio.run(Tracking()(content, frames, ask))
    assert [call.point for call in calls] == [(2.5, 5.0), (7.5, 5.0)] and len(calls) == Tracking.calls
    assert (calls[0].frames == 0).all() and (calls[1].frames == 1).all() and calls[0].frames.shape == (3, 10, 10, 3)
    assert answer == [pytest.approx([0.2, 0.4, 0.5]), None, pytest.approx([0.4, 0.4, 0.2])]
    tracked = positions(answer)
    assert tracked.shape == (3, 3) and np.isnan(tracked[1]).all() and tracked[2] == pytest.approx([0.4, 0.4, 0.2])
    assert asyncio.run(Tracking()(content, frames, ask)) is None, "a failed call is no answer"
    calls, answers[1][:, 2] = calls[:0], 0
    assert asyncio.run(Tracking()(content, frames, ask)) == Unusable([None] * 3), "nor is one that never saw it"


def test_a_lost_object_leaves_the_robots_reward() -> None:
    robot, thing = np.array([0.2, 0.4, 0.9]), np.array([0.6, np.nan, 0.1])
    assert with_object(robot, thing) == pytest.approx([0.4, 0.4, 0.5])


def pinhole(points: Array) -> Array:
    """A camera 2 m above the origin that looks down, with a focal length of half its frame: (x, y, z) is at (1/2 + x /
    (2 (2 - z)), 1/2 - y / (2 (2 - z)))."""
    depth = 2 - points[:, 2]
    return np.stack([0.5 + points[:, 0] / (2 * depth), 0.5 - points[:, 1] / (2 * depth)], axis=1)


def beside(points: Array) -> Array:
    """The same from x = 2 m, towards the origin: its right is y and its up z."""
    return pinhole(points[:, [1, 2, 0]])


def test_the_matrix_of_a_camera_is_found_from_what_it_shows() -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    projected = np.concatenate([points, np.ones((20, 1))], axis=1) @ matrix(pinhole).T
    assert projected[:, :2] / projected[:, 2:] == pytest.approx(pinhole(points))


def test_the_column_beside_a_point_by_hand_and_of_bin_sorting() -> None:
    # (.3, -.4, .2) is 1.8 m below the upper camera and 1.7 m before the other one.
    u, v, h = 0.5 + 0.3 / 3.6, 0.5 + 0.4 / 3.6, 0.5 - 0.2 / 3.4
    assert column_beside(pinhole, beside, (u, v, h)) == pytest.approx(0.5 - 0.4 / 3.4)
    suite = registry.get("suite", "bin_sorting")(observation="state")
    above, side = (functools.partial(suite.project, "forward", camera, size=1) for camera in ("top", "side"))
    for place in ([0.42, 0.05, 0.02], [0.30, -0.24, 0.15], [0.5, 0.2, 0.3]):
        (u, v), (column, h) = above(np.array([place]))[0], side(np.array([place]))[0]
        assert column_beside(above, side, (u, v, h)) == pytest.approx(column)


def test_what_is_followed_is_the_grasp_point_at_the_height_of_its_lowest_waypoint() -> None:
    """The view from above shows (.3, -.4, .2) at (u, v), to which the second and the third waypoint are nearest."""
    u, v, h = 0.5 + 0.3 / 3.6, 0.5 + 0.4 / 3.6, 0.5 - 0.2 / 3.4
    path = np.array([[0.1, 0.1, 0.9], [0.6, 0.6, h - 0.1], [0.6, 0.6, h], [0.9, 0.6, 0.9]])
    question = json.loads(to_follow("take it", [u, v], path, (pinhole, beside)))
    assert question == {"instruction": "take it", "point": [u, v], "side": [pytest.approx(0.5 - 0.4 / 3.4), h]}
    v += 2.6 / 3.6  # (.3, -3, .2), 3 metres to the left of what the side view shows
    assert to_follow("take it", [u, v], np.array([[u, v, h]]), (pinhole, beside)) == ""


def test_views_that_determine_no_point_are_refused() -> None:
    check_refused("they must differ in direction", column_beside, pinhole, pinhole, (0.5, 0.5, 0.5))
    check_refused("a view shows 0 of the 27 points", matrix, lambda points: np.full((len(points), 2), np.nan))
