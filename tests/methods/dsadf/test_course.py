"""When sub-goals are reached, in episodes worked by hand (DSADF, algorithm 2)."""

from __future__ import annotations

from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.plans import Subgoal

PLAN = (Subgoal("find tree"), Subgoal("chop tree", 2), Subgoal("make wood sword"))


def test_sub_goals_follow_each_other() -> None:
    course = Course(PLAN)
    seen = []
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
        seen.append(str(course.present))
        course.acted({action} & possible)
    assert seen == ["find tree", "find tree", *["chop tree (2 times)"] * 4, *["make wood sword"] * 2]
    assert course.last and str(course.present) == "make wood sword", "the last sub-goal stays until the episode ends"


def test_without_a_mask_every_action_counts_and_only_the_performer_ends_a_search() -> None:
    course = Course(PLAN)
    course.look(None)
    course.acted({"find tree"})
    assert str(course.present) == "find tree" and course.steps == 1
    course.end()
    assert course.steps == 0
    course.acted({"chop tree"})
    course.acted({"chop tree"})
    assert str(course.present) == "make wood sword"
    course.end()
    assert str(course.present) == "make wood sword", "the last one does not end"


def test_a_search_is_not_over_because_another_search_follows() -> None:
    course = Course((Subgoal("find tree"), Subgoal("find cow"), Subgoal("attack cow")))
    course.look({"find cow", "attack cow"})
    assert str(course.present) == "find tree"


def test_a_partial_plan_is_over_once_its_last_sub_goal_is_reached() -> None:
    course = Course((Subgoal("grab mug"), Subgoal("find table"), Subgoal("put mug on table")), partial=True)
    course.acted([])
    course.acted(["grab mug"])
    assert str(course.present) == "find table" and not course.last
    course.look({"put mug on sink": 5})
    assert str(course.present) == "find table"
    course.look({"put mug on table": 5})
    assert str(course.present) == "put mug on table" and not (course.last or course.over)
    course.acted(["put mug on table"])
    assert course.present is None and course.over and course.last, "then the task itself is the goal"
    course.end()
    assert course.at == 3
    search = Course((Subgoal("find mug"),), partial=True)
    search.look({"grab mug"})
    assert not search.over, "only the performer ends a search that nothing follows"
    search.end()
    assert search.over and not Course(partial=True).over


def test_without_a_plan_the_task_is_the_goal() -> None:
    course = Course()
    course.look({"chop tree"})
    course.acted({"chop tree"})
    assert course.present is None and course.last
