"""Crafter: an open world with 22 achievements, in which the player has to survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from guidebench.harness.errors import unknown
from guidebench.harness.interfaces import Actions, Observations, Score
from guidebench.harness.parts import SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite
from guidebench.suites.crafter.captions import DEEDS, MEASURES
from guidebench.suites.crafter.observations import space
from guidebench.suites.crafter.settings import (
    DQN,
    QUICK,
    QUICK_DQN,
    SMOKE,
    SMOKE_DQN,
    CrafterDrawing,
    WorldSettings,
    need,
)

if TYPE_CHECKING:
    from guidebench.suites.crafter.task import CrafterTask

ACTIONS = 17
EVENTS = (
    "collect_coal", "collect_diamond", "collect_drink", "collect_iron", "collect_sapling", "collect_stone",
    "collect_wood", "defeat_skeleton", "defeat_zombie", "eat_cow", "eat_plant", "make_iron_pickaxe", "make_iron_sword",
    "make_stone_pickaxe", "make_stone_sword", "make_wood_pickaxe", "make_wood_sword", "place_furnace", "place_plant",
    "place_stone", "place_table", "wake_up",
)  # fmt: skip
"""The package's achievements, in its order."""
PAPER = "Crafter (Hafner 2022), §3"


def _difficulty(steps: int, length: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty: a budget and the longest episode."""
    return {
        "task": cite("game", reason),
        "profile": cite("quick", "symbols, a narrow network"),
        "suite.length": cite(length, reason),
        "training.steps": cite(steps, reason),
        "evaluation.every": cite(steps // 6, "choice: six evaluations"),
    }


@register.suite("crafter")
@dataclass(frozen=True, kw_only=True)
class Crafter(WorldSettings, SuitePart):
    """The whole game with the package's own dynamics, reward and 22 achievements."""

    length: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """Longest episode (Crafter's default)."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "crafter"
    title: ClassVar[str] = "Crafter"
    source: ClassVar[str] = "Hafner (2022), Benchmarking the Spectrum of Agent Capabilities; crafter 1.8.3"
    citation: ClassVar[str | Path] = Path(__file__).with_name("crafter.bib")
    tasks: ClassVar[tuple[str, ...]] = ("game",)
    learner: ClassVar[str] = "dueling_dqn"
    method: ClassVar[str] = "sparse"
    views: ClassVar[tuple[str, ...]] = ("observation",)
    scores: ClassVar[Mapping[str, Score]] = {"game": Score("achievements", low=0.0, high=22.0)}
    events: ClassVar[tuple[str, ...]] = EVENTS
    ordered: ClassVar[bool] = False
    drawing: ClassVar[type] = CrafterDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(1_000_000, f"{PAPER}: a budget of 1M steps"),
        "training.capacity": cite(100_000, "choice: 1.2 GB of pictures of 64 pixels"),
        "evaluation.every": cite(50_000, "choice; twenty evaluations"),
        "evaluation.episodes": cite(20, "choice: success rates in steps of 5 %"),
        **DQN,
    }
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"suite.observation": cite("pixels", f"{PAPER}: pictures of 64 x 64 pixels")},
        "quick": {
            "training.steps": cite(100_000, QUICK),
            "evaluation.every": cite(20_000, QUICK),
            "evaluation.episodes": cite(10, QUICK),
            **QUICK_DQN,
        },
        "smoke": {
            "suite.length": cite(60, SMOKE),
            "training.steps": cite(300, SMOKE),
            "training.capacity": cite(300, SMOKE),
            "evaluation.every": cite(150, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
            **SMOKE_DQN,
        },
    }

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "game_30k": _difficulty(30_000, 10_000, "`sparse` ended at 3.3 of 22 in measured/crafter_quick, `random` 2.1"),
        "game_60k": _difficulty(60_000, 10_000, "choice: twice that, since .2 of 22 achievements are 4.4"),
        "game_100k": _difficulty(100_000, 10_000, "choice: all of the quick profile's steps"),
        "game_60k_500": _difficulty(60_000, 500, "choice: episodes end before most die, so more begin"),
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: those of the kind `observation` (`guidebench.suites.crafter.observations.space`). Actions: the
        package's 17, in its order."""
        check(task)
        return space(self.observation, self.area, self.view, self.size), Actions(count=ACTIONS)

    def action_names(self, task: str) -> tuple[str, ...]:
        """Return the package's names of its 17 actions, in words."""
        from guidebench.suites.crafter.game import ACTIONS as names

        check(task)
        return tuple(name.replace("_", " ") for name in names)

    def deeds(self, task: str) -> tuple[str, ...]:
        """Return the captions of the steps that are more than a move, such as `chop tree`."""
        check(task)
        return DEEDS

    def measures(self, task: str) -> Mapping[str, str]:
        """Return what the tasks measure: which deeds the player could do next."""
        check(task)
        return MEASURES

    def horizon(self, task: str) -> int:
        """Return `suite.length`."""
        check(task)
        return self.length

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, with the share of a reset in short episodes."""
        check(task)
        return 8e-4 if self.observation in ("pixels", "grey", "grey_text") else 3e-4

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, or if the package is missing."""
        check(task)
        need("crafter")

    def make(self, task: str) -> CrafterTask:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.crafter.task import CrafterTask

        return CrafterTask(self)


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in Crafter.tasks:
        raise unknown("task", task, Crafter.tasks)
