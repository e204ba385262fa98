"""The tasks as the paper numbers them, and the materials that the package's recipes make them take."""

import pytest

pytest.importorskip("crafter")

from crafter import constants

from guidebench.suites.crafter.observations import rows
from guidebench.suites.crafter_ood.quests import ALIASES, FREE_PLAY, LONGEST, QUESTS, Quest, chop, find, make
from tests.refusals import check_refused

STEPS = {"1": 7, "2": 9, "3": 6, "4": 8, "5": 15, "6": 12, "7": 6, "8": 4, "9": 4, "9, steps as listed": 4, "10": 4}
"""Number of the task -> its process steps (DSADF, app. A.1.1)."""


def test_every_task_has_as_many_steps_as_in_the_paper():
    assert {quest.number: len(quest.subgoals) for name, quest in QUESTS.items() if name != FREE_PLAY} == STEPS
    assert LONGEST == 15 and ALIASES["task7"] == "attack_cow_zombies" and len(ALIASES) == 10
    groups = {quest.number: quest.group for quest in QUESTS.values()}
    assert [groups[str(n)] for n in range(1, 11)] == ["in-domain"] * 4 + ["long"] * 3 + ["short"] * 3


def test_zombies_are_in_task_seven_alone():
    assert [name for name, quest in QUESTS.items() if quest.zombies] == ["attack_cow_zombies"]


def test_the_wood_to_chop_is_what_table_and_tools_take():
    def takes(quest):
        made = [step.achievement.removeprefix("make_") for step in quest.subgoals if step.achievement[:5] == "make_"]
        table = constants.place["table"]["uses"]["wood"] * any(s.achievement == "place_table" for s in quest.subgoals)
        return table + sum(constants.make[item]["uses"]["wood"] for item in made)

    for name, count in {"stone_sword": 4, "mine_iron": 4, "attack_cow": 3, "mine_diamond": 5, "iron_sword": 5,
                        "attack_cow_zombies": 3, "wood_sword": 3}.items():  # fmt: skip
        quest = QUESTS[name]
        chopped = max(step.times for step in quest.subgoals if step.achievement == "collect_wood")
        assert chopped == count == takes(quest), name


def test_the_starts_of_short_tasks_hold_what_their_steps_take():
    assert QUESTS["mine_diamond_short"].inventory == {
        "wood_pickaxe": 1, "stone_pickaxe": 1, "wood": 1, "stone": 4, "coal": 1, "iron": 1,
    }  # fmt: skip
    assert constants.place["furnace"]["uses"] == {"stone": 4}
    for item in ("iron_pickaxe", "iron_sword"):
        assert constants.make[item]["uses"] == {"wood": 1, "coal": 1, "iron": 1}
    assert "iron" not in QUESTS["iron_sword_short"].inventory


def test_a_world_or_a_view_too_small_for_the_start_is_refused():
    check_refused(
        r"suite\.area=19 is too small for the task 'mine iron'.*iron.*at least 20$", QUESTS["mine_iron"].check, 19, 9
    )
    QUESTS["mine_iron"].check(20, 9)
    check_refused(r"hardly ever hold diamond; set suite\.area to at least 24$", QUESTS["mine_diamond"].check, 20, 9)
    check_refused(
        r"suite\.view=5 is too small for the task 'make a stone sword', which starts be",
        QUESTS["stone_sword_short"].check,
        64,
        5,
    )
    QUESTS["stone_sword_short"].check(64, 6)
    QUESTS["deforestation"].check(9, 5)
    assert rows(5) == 1 and rows(6) == 3  # of the world, in a view of so many cells


def test_a_goal_satisfied_at_the_start_is_refused():
    check_refused(
        r"make a sword.*make wood sword, is satisfied at the start.*wood_sword: 1",
        Quest,
        "0",
        "short",
        "make a sword",
        (make("wood_sword"),),
        {"wood_sword": 1},
    )
    Quest("0", "short", "chop", (find("tree"), chop(4)), {"wood": 3})
    check_refused("is satisfied at the start", Quest, "0", "short", "chop", (find("tree"), chop(4)), {"wood": 4})
    check_refused("has no sub-goals", Quest, "0", "short", "idle", ())
    assert Quest("", "free", "idle", ()).sought == QUESTS[FREE_PLAY].sought == ()
