"""The hand-written chats: what they make of a prompt, and that they err as often as they say."""

import pytest

from guidebench.harness import registry
from guidebench.harness.models.calls import Message
from guidebench.methods.dsadf import plans, prompts, rules
from guidebench.methods.dsadf.plans import Subgoal, Vocabulary, listed
from guidebench.methods.dsadf.scripted import PromptPerformer, PromptPlanner, PromptReflector, goals, shortened, step
from guidebench.methods.model_as_agent import CRAFTER_HINT
from tests.methods.dsadf.worlds import ACTIONS, HINT, START

STEPS = [
    "find tree",
    "chop tree",
    "place crafting table",
    "make wood pickaxe",
    "find stone",
    "mine stone",
    "make stone sword",
]
WORDS = Vocabulary(ACTIONS, (START,))


def read(reply: str) -> tuple[Subgoal, ...]:
    return plans.read(reply, WORDS, 40)


def planning_prompt(text: str = START, goal: str = "make a stone sword") -> tuple[Message, ...]:
    return (prompts.planning(goal, text, ACTIONS, HINT, 40),)


MANY = [f"{START} day {number}." for number in range(500)]
"""Texts of states that differ, but not in anything that a plan depends on."""


def near(count: int, rate: float) -> bool:
    """Whether `count` of the states in `MANY` agrees with a rate, within three standard deviations."""
    return abs(count / len(MANY) - rate) < 3 * (rate * (1 - rate) / len(MANY)) ** 0.5


def test_a_plan_is_chained_from_the_goal() -> None:
    """By hand: 2 wood for the table, 1 for the pickaxe, 1 for the sword."""
    from_nothing, from_materials, from_sight = (read(PromptPlanner(0, 0)(planning_prompt(text))) for text in (
        START, "you see crafting table. you have in your inventory wood, stone.", "you see crafting table and wood.",
    ))  # fmt: skip
    assert [name for name, _ in from_nothing] == STEPS and from_nothing[1].times == 4
    assert [name for name, _ in from_materials] == ["make stone sword"], "the table stands there"
    assert [name for name, _ in from_sight][:2] == ["find tree", "chop tree"], "to see wood is not to hold it"


@pytest.mark.parametrize("task", ["mine_diamond_short", "iron_sword_short", "stone_sword_short"])
def test_a_task_that_begins_beside_a_table_is_planned_as_its_sub_goals_are(task: str) -> None:
    pytest.importorskip("crafter")
    suite = registry.get("suite", "crafter_ood")(actions="find")
    world = suite.make(task)
    world.reset(0)
    assert "crafting table" in world.text()
    names = suite.action_names(task)
    reply = PromptPlanner(0, 0)((prompts.planning(world.instruction, world.text(), names, CRAFTER_HINT, 40),))
    steps = [name for name, _ in plans.read(reply, Vocabulary(names, (CRAFTER_HINT,)), 40)]
    assert "place crafting table" not in steps
    returns = {"find crafting table", "find furnace"}
    assert sorted({*steps} - returns) == sorted(name.lstrip("0123456789 ") for name in world.subgoals())
    if task == "iron_sword_short":
        ways = ["find iron", "mine iron", "find crafting table", "find furnace", "make iron sword"]
        assert steps == ["place furnace", *ways], "the iron is away from table and furnace"


def test_a_goal_may_name_several_actions_and_numbers() -> None:
    assert goals("make a wood pickaxe, and attack and eat a cow", ACTIONS) == [
        Subgoal("make wood pickaxe"), Subgoal("eat cow"),
    ]  # fmt: skip
    assert read(PromptPlanner(0, 0)(planning_prompt(goal="chop four trees"))) == (
        Subgoal("find tree"),
        Subgoal("chop tree", 4),
    )
    assert PromptPlanner(0, 0)(planning_prompt(goal="be happy")) == "I do not know how to reach this goal."


def test_circular_rules_end() -> None:
    hint = "- mine stone: needs wood pickaxe; gives stone\n- make wood pickaxe: needs stone; gives wood pickaxe"
    message = prompts.planning("mine stone", START, ACTIONS, hint, 40)
    steps = read(PromptPlanner(0, 0)((message,)))
    assert [name for name, _ in steps] == ["make wood pickaxe", "find stone", "mine stone"]


def test_the_planner_omits_a_prerequisite_at_its_rate() -> None:
    planner = PromptPlanner(0.3, 0)
    step_names = [[name for name, _ in read(planner(planning_prompt(text)))] for text in MANY]
    short = [names for names in step_names if len(names) < len(STEPS)]
    assert near(len(short), 0.3)
    assert all(len(names) == len(STEPS) - 1 and names[-1] == "make stone sword" for names in short)
    omitted = {next(name for name in STEPS if name not in names) for names in short}
    assert omitted == {"chop tree", "place crafting table", "make wood pickaxe", "mine stone"}


def test_a_reply_without_a_plan_comes_at_its_rate_and_is_mended_by_asking_again() -> None:
    planner = PromptPlanner(0, 0.2)
    spoilt = [text for text in MANY if "1." not in planner(planning_prompt(text))]
    assert near(len(spoilt), 0.2)
    again = [
        planner((*planning_prompt(text), Message("assistant", ("",)), Message("user", ("again",)))) for text in spoilt
    ]
    assert 0.6 < sum("1." in reply for reply in again) / len(again) < 0.95


def test_the_final_plan_follows_the_reflection() -> None:
    arguments = ("make a stone sword", START, ACTIONS, HINT, 40)
    for suggested, name in (("\nSuggested plan:\n1. chop tree", "chop tree"), ("", "mine stone")):
        message = prompts.regenerating(*arguments, "1. mine stone", f"Weaknesses: much{suggested}")
        assert read(PromptPlanner(1, 0)((message,))) == (Subgoal(name),)


def reflect(misses: float, plan: list[str], text: str = START) -> str:
    message = prompts.reflecting("make a stone sword", text, ACTIONS, HINT, 40, listed(list(map(Subgoal, plan))))
    return PromptReflector(misses)((message,))


def test_the_reflector_finds_what_is_lacking_and_mends_it_but_misses_at_its_rate() -> None:
    assert "Weaknesses: none" in reflect(0, STEPS)
    reply = reflect(0, [name for name in STEPS if name != "place crafting table"])
    assert "step 3, make wood pickaxe, lacks crafting table" in reply
    mended = read(reply.split("Revised plan:")[1])
    assert [name for name, _ in mended] == STEPS and not rules.lacks(mended, rules.read(HINT), START)
    short = [name for name in STEPS if name != "mine stone"]
    assert near(sum("Weaknesses: none" in reflect(0.2, short, text) for text in MANY), 0.2)


def test_a_search_is_no_prerequisite_and_a_lone_step_stays() -> None:
    assert shortened((Subgoal("find tree"), Subgoal("chop tree")), 0.5) == (Subgoal("find tree"), Subgoal("chop tree"))
    assert shortened(tuple(map(Subgoal, STEPS)), 0.999)[-2].name == "find stone"


FIND_TABLE = "find crafting table"
WOOD = "you have in your inventory wood, coal, and iron."
STONE = "you are targeting crafting table. you have in your inventory stone."


@pytest.mark.parametrize(
    ("goal", "text", "possible", "may_end", "action"),
    [
        ("chop tree (4 times)", START, ["move left", "chop tree", "find tree"], True, "chop tree"),
        ("chop tree (4 times)", START, ["move left", "find tree"], True, "find tree"),
        ("find tree", START, ["move left", "find tree"], True, "find tree"),
        ("find tree", "you are targeting tree.", ["move left", "find tree"], True, "done"),
        ("find tree", "you are targeting tree.", ["find tree"], False, "find tree"),
        ("mine stone", "you feel thirsty.", ["drink water", "mine stone"], True, "drink water"),
        ("make stone sword", START, ["place crafting table", "find tree"], True, "place crafting table"),
        ("make a stone sword", START, ["chop tree", "do nothing"], False, "chop tree"),
        ("make iron sword", WOOD, ["make wood sword", FIND_TABLE, "find furnace"], True, FIND_TABLE),
        ("make iron sword", START, ["move left", FIND_TABLE, "find tree"], True, "find tree"),  # its wood is gone
        ("place furnace", STONE, ["move left", FIND_TABLE], True, "move left"),
        ("place stone", STONE, ["move left", FIND_TABLE], True, "move left"),
    ],
)  # fmt: skip
def test_the_performer_serves_its_sub_goal(
    goal: str, text: str, possible: list[str], may_end: bool, action: str
) -> None:
    assert step(goal, text, possible, may_end, 0.5) == action


def test_the_performer_errs_at_its_rates() -> None:
    performer = PromptPerformer(0.3, 0.1)
    possible = ["do nothing", "chop tree", "find tree"]
    replies = [
        performer((prompts.performing("make a stone sword", text, possible, "chop tree", (), False),)) for text in MANY
    ]
    assert near(replies.count("open the door"), 0.1)
    assert near(sum(reply not in ("open the door", "chop tree") for reply in replies), 0.9 * 0.3 * 2 / 3)
