"""Equations 7 to 10, worked by hand."""

import numpy as np
import pytest

from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.rewards import Completed, Terms, advance, proximity

E = np.array([3, 4], np.float32)


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
def test_proximity_and_the_sum_of_three_terms(caption: list[float], beta: float, expected: float) -> None:
    """Of the terms 1, 2 and .995 the sum is 1·1 + .5·2 + .2·.995 = 2.199."""
    assert Terms(1, 2, 0.995).total((1, 0.5, 0.2)) == pytest.approx(2.199)
    assert proximity(np.array(caption, np.float32), E, beta) == pytest.approx(expected)


def test_sub_goals_are_completed_once_in_their_order() -> None:
    course = Course([Subgoal("find tree"), Subgoal("chop tree", 2), Subgoal("find cow"), Subgoal("eat cow")])
    moves, chops = {"move left"}, {"move left", "chop tree"}
    assert [advance(course, *step) for step in (
        (["move left"], moves), (["move left"], chops), (["chop tree"], chops),
        ([], chops),  # it was not possible, so it did nothing
        (["chop tree"], {"eat cow"}),
    )] == [[], [Completed("find tree", 2)], [], [], [Completed("chop tree", 3), Completed("find cow", 0)]]  # fmt: skip
    assert course.present == Subgoal("eat cow")
    assert advance(course, ["eat cow"], moves) == [] == advance(Course(), ["eat cow"], moves), "T is left out"


def test_the_last_sub_goal_of_a_partial_plan_is_completed_too() -> None:
    course = Course([Subgoal("find mug"), Subgoal("grab mug"), Subgoal("put mug on table")], partial=True)
    put = "put mug on table"
    assert [advance(course, *step) for step in (
        ([], ["grab mug"]), (["grab mug"], [put]), (["put mug on sink"], ["grab mug"]), ([put], ["grab mug"]),
    )] == [[Completed("find mug", 1)], [Completed("grab mug", 1)], [], [Completed(put, 2)]]  # fmt: skip
    assert course.over and advance(course, ["grab mug"], []) == []
