"""DSADF's tasks 1 to 10 on Crafter, and free play: start, goal and ordered sub-goals (app. A.1.1).

What the paper leaves open is chosen here: how many of a thing a sub-goal takes follows from the package's recipes, and
all counts begin at the reset, so what the player is given at the start is no progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.suites.crafter_ood.actions import STATIONS

Group = Literal["in-domain", "long", "short", "free"]
FIND_NOUNS = ("tree", "stone", "coal", "iron", "diamond", "cow")
"""What a sub-goal may ask to find."""

LEAST_AREA: Mapping[str, int] = {"tree": 9, "cow": 9, "stone": 12, "coal": 12, "iron": 20, "diamond": 24}
"""What is to be found -> the smallest side of a world, in cells, in which one in six worlds or more holds all that the
tasks with it need (measured on 150 worlds of each size)."""
TABLE_VIEW = 6
"""Least width of a view in which a table beside the player is always seen: one of 5 cells shows a single row."""


class Subgoal(NamedTuple):
    """One step of a task: find something, or reach a count of one of the package's achievements since the reset."""

    name: str
    achievement: str
    """The achievement that is counted; of a sub-goal to find something, that which collects or eats it."""
    times: int = 1
    find: str = ""
    """What to find: one stands beside it, or the achievement's count is reached without."""


def find(noun: str, count: int = 1) -> Subgoal:
    achievement = "collect_wood" if noun == "tree" else "eat_cow" if noun == "cow" else f"collect_{noun}"
    return Subgoal(f"find {noun}", achievement, count, noun)


def chop(count: int) -> Subgoal:
    return Subgoal("chop trees" if count > 1 else "chop tree", "collect_wood", count)


def mine(noun: str, count: int = 1) -> Subgoal:
    return Subgoal(f"mine {noun}", f"collect_{noun}", count)


def make(tool: str) -> Subgoal:
    return Subgoal(f"make {tool.replace('_', ' ')}", f"make_{tool}")


TABLE = Subgoal("place crafting table", "place_table")
FURNACE = Subgoal("place furnace", "place_furnace")
ATTACK = Subgoal("attack cow", "eat_cow")


@dataclass(frozen=True)
class Quest:
    """A task: the goal is reached once its achievement has its count since the reset. A task of the group `free` has no
    sub-goals and no goal. UserError for a start that reaches the goal by itself, or another task without sub-goals."""

    number: str
    """Number in the paper's appendix; "" for a task that is not the paper's."""
    group: Group
    instruction: str
    subgoals: tuple[Subgoal, ...]
    inventory: Mapping[str, int] = field(default_factory=dict)
    """What the player has at the start."""
    table: bool = False
    """Whether the player starts beside a crafting table."""
    zombies: bool = False
    """Whether there are zombies, unless the suite's setting decides otherwise."""

    def __post_init__(self) -> None:
        if self.group == "free" and not self.subgoals:
            return
        if not self.subgoals:
            raise UserError(f"the task {self.instruction!r} has no sub-goals; its last one is its goal")
        product = self.goal.achievement.removeprefix("collect_").removeprefix("make_")
        if self.inventory.get(product, 0) >= self.goal.times:
            raise UserError(
                f"the goal of the task {self.instruction!r}, {self.goal.name}, is satisfied at the start, whose "
                f"inventory has {product}: {self.inventory[product]}; start without it"
            )

    @property
    def goal(self) -> Subgoal:
        """Return the last sub-goal; a task of the group `free` has none."""
        return self.subgoals[-1]

    @property
    def sought(self) -> tuple[str, ...]:
        """Return the nouns that a world must hold for the task to be possible, apart from those that every task
        needs."""
        return tuple(dict.fromkeys(step.find for step in self.subgoals if step.find))

    @property
    def things(self) -> tuple[str, ...]:
        """Return the nouns that the task is about: what it seeks, and what tools are made at."""
        return (*self.sought, *STATIONS)

    def check(self, area: int, view: int) -> None:
        """Raise UserError if a world of `area` cells hardly ever holds what the task needs, or if a view of `view`
        cells may not show its start."""
        scarce = max(self.sought, key=LEAST_AREA.__getitem__, default="")
        if scarce and area < LEAST_AREA[scarce]:
            raise UserError(
                f"suite.area={area} is too small for the task {self.instruction!r}: worlds of that size hardly ever "
                f"hold {scarce}; set suite.area to at least {LEAST_AREA[scarce]}"
            )
        if self.table and view < TABLE_VIEW:
            raise UserError(
                f"suite.view={view} is too small for the task {self.instruction!r}, which starts beside a crafting "
                f"table: the view shows one row of the world, and the table may lie above or below it; set suite.view "
                f"to at least {TABLE_VIEW}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the numbered names of the sub-goals, `1 find tree`, in order."""
        return tuple(f"{number} {step.name}" for number, step in enumerate(self.subgoals, 1))


WOODEN = (TABLE, make("wood_pickaxe"), find("stone"), mine("stone"))
STONE_PICKAXE = (find("tree"), chop(4), *WOODEN, make("stone_pickaxe"))
IRON = (find("tree"), chop(5), *WOODEN, make("stone_pickaxe"), find("iron"), mine("iron"))
COW = (find("tree"), chop(3), TABLE, make("wood_sword"), find("cow"), ATTACK)
FREE_PLAY = "free_play"
"""The task without a goal, for pre-training (choice: DSADF, §5.1, pre-trains and does not say on what)."""
TOOLS: Mapping[str, int] = {"wood_pickaxe": 1, "stone_pickaxe": 1, "wood": 1, "stone": 4, "coal": 1}
QUESTS: Mapping[str, Quest] = {
    "stone_sword": Quest("1", "in-domain", "make a stone sword", (find("tree"), chop(4), *WOODEN, make("stone_sword"))),
    "mine_iron": Quest("2", "in-domain", "mine iron", (*STONE_PICKAXE, find("iron"), mine("iron"))),
    "attack_cow": Quest("3", "in-domain", "make a wood sword, and attack and eat a cow", COW),
    "deforestation": Quest(
        "4", "in-domain", "chop four trees", tuple(s for n in (1, 2, 3, 4) for s in (find("tree", n), chop(n)))
    ),
    "mine_diamond": Quest(
        "5",
        "long",
        "mine a diamond",
        (*IRON, find("coal"), mine("coal"), FURNACE, make("iron_pickaxe"), find("diamond"), mine("diamond")),
    ),
    "iron_sword": Quest("6", "long", "make an iron sword", (*IRON, mine("coal"), FURNACE, make("iron_sword"))),
    "attack_cow_zombies": Quest(
        "7", "long", "make a wood sword, and attack and eat a cow; beware of zombies", COW, zombies=True
    ),
    "mine_diamond_short": Quest(
        "8",
        "short",
        "mine a diamond",
        (FURNACE, make("iron_pickaxe"), find("diamond"), mine("diamond")),
        {**TOOLS, "iron": 1},
        table=True,
    ),
    "iron_sword_short": Quest(
        "9",
        "short",
        "make an iron sword",
        (find("iron"), mine("iron"), FURNACE, make("iron_sword")),
        TOOLS,
        table=True,
    ),
    "stone_sword_short": Quest(
        "9, steps as listed",
        "short",
        "make a stone sword",
        (make("wood_pickaxe"), find("stone"), mine("stone"), make("stone_sword")),
        {"wood": 2},
        table=True,
    ),
    "wood_sword": Quest("10", "short", "make a wood sword", (find("tree"), chop(3), TABLE, make("wood_sword"))),
    FREE_PLAY: Quest("", "free", "survive, and unlock as many different achievements as possible", ()),
}
BY_TURNS: Mapping[str, tuple[str, ...]] = {
    "trained": ("stone_sword", "mine_iron", "attack_cow", "deforestation"),
    "wooden": ("attack_cow", "deforestation", "wood_sword"),
}
"""Task that is another one in each episode -> these, in turn: those that the paper trains on (one policy for all of
them: choice, since it says that the others are not met in training), and the three that need nothing but wood."""
ALIASES: Mapping[str, str] = {f"task{quest.number}": name for name, quest in QUESTS.items() if quest.number.isdigit()}
LONGEST = max(len(quest.subgoals) for quest in QUESTS.values())
