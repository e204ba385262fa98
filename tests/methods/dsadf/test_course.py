"""When sub-goals are reached, in episodes worked by hand (DSADF, algorithm 2)."""

from typing import Any

import pytest

from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.plans import Subgoal

PLAN = (Subgoal("find tree"), Subgoal("chop tree", 2), Subgoal("make wood sword"))
MUG = (Subgoal("grab mug"), Subgoal("find table"), Subgoal("put mug on table"))


def test_sub_goals_follow_each_other() -> None:
    course = Course(PLAN)
    present_subgoals = []
    for action, possible in (
        ("find tree", {"find tree", "move left"}),
        ("find tree", {"find tree"}),
        ("chop tree", {"find tree", "chop tree"}),  # the tree is found: chopping is possible
        ("chop tree", {"find tree"}),  # impossible, so it does not count
        ("find tree", {"find tree"}),
        ("chop tree", {"chop tree"}),
        ("make wood sword", {"make wood sword"}),
        ("make wood sword", {"make wood sword"}),
    ):
        course.look(possible)
        present_subgoals.append(str(course.present))
        course.acted({action} & possible)
    assert present_subgoals == ["find tree", "find tree", *["chop tree (2 times)"] * 4, *["make wood sword"] * 2]
    assert course.last and str(course.present) == "make wood sword", "the last sub-goal stays until the episode ends"


@pytest.mark.parametrize(
    ("plan", "partial", "events", "ends"),
    [
        # Without a mask every action counts; only the performer ends a search, and nothing ends the last sub-goal.
        (PLAN, False, [
            ("look", None, "find tree", 0), ("acted", {"find tree"}, "find tree", 1), ("end", "chop tree (2 times)", 0),
            ("acted", {"chop tree"}, "chop tree (2 times)", 1), ("acted", {"chop tree"}, "make wood sword", 0),
            ("end", "make wood sword", 0),
        ], (False, True)),
        # Searches are over once the deed after them is possible, and not because another search follows.
        ((Subgoal("find crafting table"), Subgoal("find furnace"), Subgoal("make iron sword")), False,
         [("look", {"find furnace"}, "find crafting table", 0), ("look", {"make iron sword"}, "make iron sword", 0)],
         (False, True)),
        # A partial plan is over once its last sub-goal is reached; then the task itself is the goal.
        (MUG, True, [
            ("acted", [], "grab mug", 1), ("acted", ["grab mug"], "find table", 0),
            ("look", {"put mug on sink": 5}, "find table", 0), ("look", {"put mug on table": 5}, "put mug on table", 0),
        ], (False, False)),
        (MUG[2:], True, [("acted", ["put mug on table"], "None", 0), ("end", "None", 0)], (True, True)),
        # Only the performer ends a search that nothing follows.
        ((Subgoal("find mug"),), True, [("look", {"grab mug"}, "find mug", 0)], (False, False)),
        ((Subgoal("find mug"),), True, [("end", "None", 0)], (True, True)),
        # Without a plan the task is the goal, and no plan is over.
        ((), False, [("look", {"chop tree"}, "None", 0), ("acted", {"chop tree"}, "None", 1)], (False, True)),
        ((), True, [], (False, True)),
    ],
)  # fmt: skip
def test_what_ends_a_sub_goal_and_a_plan(
    plan: tuple[Subgoal, ...], partial: bool, events: list[Any], ends: tuple[bool, bool]
) -> None:
    """After each event are stated the present sub-goal and its steps, and after the last whether the plan is over and
    whether its last sub-goal is present."""
    course = Course(plan, partial)
    for event, *arguments, present, steps in events:
        getattr(course, event)(*arguments)
        assert (str(course.present), course.steps) == (present, steps)
    assert (course.over, course.last) == ends
