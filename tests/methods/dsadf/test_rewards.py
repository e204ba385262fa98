"""Equations 7 to 10, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.rewards import Completed, Terms, advance, proximity

E = np.array([3, 4], np.float32)


def test_the_total_weighs_three_terms() -> None:
    """1·1 + .5·2 + .2·.995 = 2.199."""
    assert Terms(1, 2, 0.995).total((1, 0.5, 0.2)) == pytest.approx(2.199)


@pytest.mark.parametrize(
    ("caption", "beta", "expected"),
    [
        (E, 0.99, 1.0),
        ([4, 3], 0.9, 0.96),  # (12 + 12) / 25
        ([4, 3], 0.96, 0.0),  # only strictly above β
        ([4, 3], 0.99, 0.0),
        ([0, 0], -0.5, 0.0),  # no caption, or a failed call
        ([-3, -4], 0.99, 0.0),
    ],
)
def test_proximity(caption: list[float], beta: float, expected: float) -> None:
    assert proximity(np.array(caption, np.float32), E, beta) == pytest.approx(expected)


def test_sub_goals_are_completed_once_in_their_order() -> None:
    course = Course([Subgoal("find tree"), Subgoal("chop tree", 2), Subgoal("find cow"), Subgoal("eat cow")])
    moves, chops = {"move left"}, {"move left", "chop tree"}
    assert advance(course, ["move left"], moves) == []
    assert advance(course, ["move left"], chops) == [Completed("find tree", 2)]
    assert advance(course, ["chop tree"], chops) == []
    assert advance(course, [], chops) == [], "it was not possible, so it did nothing"
    assert advance(course, ["chop tree"], {"eat cow"}) == [Completed("chop tree", 3), Completed("find cow", 0)]
    assert course.present == Subgoal("eat cow")
    assert advance(course, ["eat cow"], moves) == [], "T is left out"
    assert advance(Course(), ["eat cow"], moves) == []


def test_the_last_sub_goal_of_a_partial_plan_is_completed_too() -> None:
    course = Course([Subgoal("find mug"), Subgoal("grab mug"), Subgoal("put mug on table")], partial=True)
    assert advance(course, [], ["grab mug"]) == [Completed("find mug", 1)]
    assert advance(course, ["grab mug"], ["put mug on table"]) == [Completed("grab mug", 1)]
    assert advance(course, ["put mug on sink"], ["grab mug"]) == []
    assert advance(course, ["put mug on table"], ["grab mug"]) == [Completed("put mug on table", 2)]
    assert course.over and advance(course, ["grab mug"], []) == []
