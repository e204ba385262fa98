"""DSADF's tasks 1 to 10 on Crafter, with verb-noun actions: known tasks, longer and shorter ones, new dangers; and a
task without a goal for pre-training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.capabilities import INSTRUCTION
from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Actions, Array, Observations, Score
from guidebench.harness.parts import AskingPart, CellView, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit, cite
from guidebench.suites.crafter.captions import DEEDS, MEASURES
from guidebench.suites.crafter.observations import LONGEST_TEXT, space
from guidebench.suites.crafter.settings import (
    DQN,
    ELLM,
    QUICK,
    QUICK_DQN,
    SMOKE,
    SMOKE_DQN,
    CrafterDrawing,
    WorldSettings,
    need,
)
from guidebench.suites.crafter_ood.actions import Kind, actions
from guidebench.suites.crafter_ood.goals import WIDTH, instruction_of
from guidebench.suites.crafter_ood.quests import ALIASES, BY_TURNS, FREE_PLAY, LONGEST, QUESTS

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration
    from guidebench.suites.crafter_ood.playing import VerbNounTask
    from guidebench.suites.crafter_ood.task import OodTask

TASKS = (*QUESTS, *BY_TURNS)
TRAINED, WOODEN = BY_TURNS
DSADF = "DSADF, §5.3"
DIRECTIONS = 320
"""Most bytes of the sentence with coordinates, rounded up: eight things in a world of 256 cells."""


def _difficulty(task: str, steps: int, reason: str, test_length: int = 200) -> Mapping[str, Any]:
    """Return the words of a difficulty: a task made easier in all but its goal, a budget, and evaluation episodes so
    short that random actions do not end in success."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "symbols, a narrow network, episodes of 1,000 steps"),
        "suite.actions": cite("find", "choice: steps towards what was seen are actions"),
        "suite.impossible": cite("masked", "choice: an action that does nothing is not chosen"),
        "suite.test_length": cite(
            test_length, "choice: in 1,000 steps random actions solve up to half of the episodes"
        ),
        "training.steps": cite(steps, reason),
        "evaluation.every": cite(steps // 8, "choice: eight evaluations"),
    }


@register.suite("crafter_ood")
@dataclass(frozen=True, kw_only=True)
class CrafterOod(WorldSettings, SuitePart):
    """Ten tasks of Crafter in three groups: in-domain, long and short; tasks that have several of these in turn; and
    free play, which has no goal."""

    actions: Kind = "pairs"
    """`pairs`: the 28 verb-noun actions that can have an effect. `find`: also one for each of ten nouns that takes the
    next step towards it through what has been seen. `product`: ELLM's 139, every verb with every noun (DSADF, table
    11; moves: choice, since the table has none)."""
    impossible: Literal["counted", "masked"] = "counted"
    """An action that is impossible does nothing and is counted; `masked` also shows in the observation part
    `admissible` which are possible, and a learner of action values chooses among those (choice)."""
    zombies: Literal["task", "on", "off"] = "task"
    """Whether there are zombies: as the task says, which is in `attack_cow_zombies` alone, or in all tasks, or none
    (DSADF, app. A.1.1, task 7)."""
    hunger: bool = False
    """Whether the player gets hungry, thirsty and tired, as in Crafter (choice: not, since players that do not eat die
    after about 340 steps, and DSADF's times reach 13,541 steps of its tests)."""
    directions: Annotated[bool, Later] = False
    """Whether sentences tell where each thing of the task was last seen, in steps from the player (DSADF, §3.1; choice:
    not, since then each step is another question to a model, and steps of `find` lead to the same things)."""
    goal_vector: Annotated[bool, Later] = False
    """Whether observations have the part `instruction`, the sentence vector of the goal
    (`guidebench.suites.crafter_ood.goals`), as tasks in turn have in any case (choice: not, since a single task has one
    goal; a policy of tasks in turn is tested elsewhere with it)."""
    death: Literal["end", "restart"] = "end"
    """Whether death ends the episode, or it continues in a new world from the task's start until it is as long as
    `length` (choice)."""
    length: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """Longest episode in training (DSADF, §5.3: rollouts of 10,000 steps)."""
    test_length: Annotated[int, Bounds(1), Unit("environment steps")] = 15_000
    """Longest evaluation episode (DSADF, §5.3: tests of 15,000 steps)."""

    version: ClassVar[int] = 3
    extra: ClassVar[str] = "crafter"
    title: ClassVar[str] = "Crafter, ten tasks"
    source: ClassVar[str] = "DSADF, §5.3 and app. A.1; crafter 1.8.3"
    citation: ClassVar[str | Path] = Path(__file__).with_name("crafter_ood.bib")
    tasks: ClassVar[tuple[str, ...]] = TASKS
    by_turns: ClassVar[tuple[str, ...]] = tuple(BY_TURNS)
    aliases: ClassVar[Mapping[str, str]] = ALIASES
    pretraining: ClassVar[str] = FREE_PLAY
    goalless: ClassVar[tuple[str, ...]] = (FREE_PLAY,)
    scores: ClassVar[Mapping[str, Score]] = {FREE_PLAY: Score("achievements", low=0.0, high=22.0)}
    learner: ClassVar[str] = "dueling_dqn"
    method: ClassVar[str] = "sparse"
    views: ClassVar[tuple[str, ...]] = ("observation",)
    events: ClassVar[tuple[str, ...]] = tuple(f"subgoal {number}" for number in range(1, LONGEST + 1))
    drawing: ClassVar[type] = CrafterDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(2_000_000, f"{DSADF}: 2 million iterations"),
        "training.capacity": cite(100_000, "choice: .7 GB of pictures of 84 pixels, each stored once"),
        "evaluation.every": cite(100_000, "choice; twenty evaluations"),
        "evaluation.episodes": cite(60, f"{DSADF}, figure 4: 60 test runs"),
        **DQN,
    }
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "tasks": (TRAINED,),
            "suite.observation": cite("grey", f"{ELLM}, whose network DSADF takes (§5.1)"),
            "suite.size": cite(84, ELLM),
        },
        "quick": {
            "tasks": (WOODEN,),
            "suite.length": cite(1_000, QUICK),
            "suite.test_length": cite(1_000, QUICK),
            "training.steps": cite(100_000, QUICK),
            "evaluation.every": cite(10_000, QUICK),
            "evaluation.episodes": cite(10, QUICK),
            **QUICK_DQN,
        },
        "smoke": {
            "tasks": ("deforestation",),
            "suite.length": cite(60, SMOKE),
            "suite.test_length": cite(60, SMOKE),
            "training.steps": cite(300, SMOKE),
            "training.capacity": cite(300, SMOKE),
            "evaluation.every": cite(150, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
            **SMOKE_DQN,
        },
    }

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "deforestation_8k": _difficulty(
            "deforestation", 8_000, "`sparse` rose from .47 at 5k steps to 1 at 10k in measured/crafter_ood_quick"
        ),
        "attack_cow_8k": _difficulty(
            "attack_cow", 8_000, "`sparse` rose from .23 at 5k steps to .97 at 10k in measured/crafter_ood_quick"
        ),
        "wood_sword_16k": _difficulty(
            "wood_sword", 16_000, "`sparse` was at .40 by then in measured/crafter_ood_pretrained"
        ),
        "wood_sword_24k": _difficulty(
            "wood_sword",
            24_000,
            "`sparse` was at 1 by then in measured/crafter_ood_pretrained, so its area is about .4",
        ),
        "stone_sword_48k": _difficulty(
            "stone_sword", 48_000, "`sparse` ended at .07 in measured/crafter_ood_pretrained", test_length=400
        ),
    }

    def fits(self, view: CellView) -> str:
        """Return why a setting has no effect in a cell, or ""."""
        if not self.directions or "text" in self.spaces(view.task)[0].parts:
            return ""
        if any(isinstance(part, AskingPart) and part.reads_words for part in view.parts.values()):
            return ""
        return (
            f"suite.directions=true adds a sentence to the text, and with suite.observation={self.observation} nothing "
            f"in this cell reads it; set suite.observation=text or grey_text, or leave it out"
        )

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: those of the kind `observation` (`guidebench.suites.crafter.observations.space`), and with
        `impossible=masked` a part `admissible`, uint8 [actions], 1 where an action is possible. Actions: 28, 38 or 139
        choices (`guidebench.suites.crafter_ood.actions.actions`)."""
        check(task)
        observations = space(self.observation, self.area, self.view, self.size, self.longest_text)
        count = len(actions(self.actions))
        if self.impossible == "masked":
            admissible = Observations((count,), "uint8", categories=(2,) * count, mask=True)
            observations = observations.joined(admissible=admissible)
        if self.shows_goal(task):
            observations = observations.joined(**{INSTRUCTION: Observations((WIDTH,), "float32")})
        return observations, Actions(count=count)

    def turns(self, task: str) -> tuple[str, ...]:
        """Return the tasks that episodes of a task are, in turn: itself alone, unless its goal changes."""
        check(task)
        return BY_TURNS.get(task, (task,))

    def subgoals_by_goal(self, task: str) -> Mapping[str, Sequence[str]]:
        """Return instruction -> numbered names of the sub-goals, of each task in turn (`capabilities.PlansByGoal`)."""
        return {QUESTS[name].instruction: QUESTS[name].names for name in self.turns(task)}

    def shows_goal(self, task: str) -> bool:
        """Return whether observations of a task have the sentence vector of the goal."""
        return self.goal_vector or task in BY_TURNS

    def instructions_at(self, task: str, observation: Array) -> Sequence[str]:
        """Return the instruction of the episode of each of the observations [n]
        (`capabilities.InstructsByObservation`)."""
        if not self.shows_goal(task):
            return [QUESTS[task].instruction] * len(observation)
        return [*map(instruction_of, observation[INSTRUCTION])]

    def instruction_at(self, task: str, snapshot: Array) -> str:
        """Return the instruction of a snapshot's episode (`capabilities.InstructsBySnapshot`); UserError for a snapshot
        that names no task."""
        names, number = self.turns(task), int(snapshot[-1]) if task in BY_TURNS else 0
        if number >= len(names):
            raise UserError(f"this snapshot names task {number}, and there are {len(names)} of {task!r}")
        return QUESTS[names[number]].instruction

    @property
    def longest_text(self) -> int:
        """Return the most bytes of a state in sentences."""
        return LONGEST_TEXT + DIRECTIONS * self.directions

    def action_names(self, task: str) -> tuple[str, ...]:
        """Return the verb and the noun of each action, such as `chop tree`."""
        check(task)
        return tuple(map(str, actions(self.actions)))

    def nearby(self, task: str, observation: Array, distance: int) -> Sequence[frozenset[str]] | None:
        """Return what the part `local` of observations [n] shows within this Manhattan distance of the player, arrows
        and lava included; None for observations without that part."""
        check(task)
        if observation.dtype.names is None or "local" not in observation.dtype.names:
            return None
        from guidebench.suites.crafter.words import nearby

        return nearby(observation["local"], distance)

    def deeds(self, task: str) -> tuple[str, ...]:
        """Return the captions of the steps that are more than a move, such as `chop tree`."""
        check(task)
        return DEEDS

    def measures(self, task: str) -> Mapping[str, str]:
        """Return name -> meaning of the measures that oracles read after each step: which deeds the player could do
        next."""
        check(task)
        return MEASURES

    def horizon(self, task: str) -> int:
        """Return `suite.length`."""
        check(task)
        return self.length

    def in_evaluation(self) -> CrafterOod:
        """Return the suite with episodes of `test_length` steps."""
        return replace(self, length=self.test_length)

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, with the share of a reset in short episodes."""
        check(task)
        return 8e-4 if self.observation in ("pixels", "grey", "grey_text") else 4e-4

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, a world or a view too small for its start, or if the package is
        missing."""
        for name in self.turns(task):
            QUESTS[name].check(self.area, self.view)
        need("crafter_ood")

    def make(self, task: str) -> VerbNounTask:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        if task != FREE_PLAY:
            return self._with_goal(task)
        from guidebench.suites.crafter_ood.free_play import FreePlay

        return FreePlay(task, self)

    def _with_goal(self, task: str) -> OodTask:
        """Return a task that has a goal; UserError for free play."""
        if task == FREE_PLAY:
            raise UserError(
                f"task {FREE_PLAY!r} of suite crafter_ood has no goal, so the scripted player can show neither how to "
                f"reach it nor what it looks like; choose another task"
            )
        from guidebench.suites.crafter_ood.task import OodTask, TurnsTask

        return (TurnsTask if task in BY_TURNS else OodTask)(task, self)

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return the scripted player's episode in world `seed`; None if it does not reach the goal. UserError for free
        play."""
        from guidebench.harness.episodes.demonstrations import play

        self.ready(task)
        solved = self._with_goal(task)
        return play(solved, seed, lambda observation: solved.expert())

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first state in which the scripted player has reached the goal in world `seed`;
        None if it does not. UserError for free play."""
        from guidebench.harness.episodes.demonstrations import first_success

        self.ready(task)
        solved = self._with_goal(task)
        return first_success(solved, seed, lambda observation: solved.expert())


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
