"""MiniGrid's DoorKey: fetch a key, open a door, reach the goal; and a judge written for this suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Actions, Drawer, Judge, Observations, Suite
from guidebench.harness.parts import CellView, DrawingPart, ModelPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit, check_settings, cite, cited

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration
    from guidebench.suites.minigrid_doorkey.task import DoorKey

SIZES = {"5x5": 5, "6x6": 6, "7x7": 7, "8x8": 8, "12x12": 12, "16x16": 16}
QUICK = "quick profile: a cell in minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"
PROMPT = (
    "Watch the whole clip. Is there a moment in it at which the agent visibly achieves a goal? If no success can be "
    'seen, the answer is No; do not guess. Reply with exactly "Answer: Yes" or "Answer: No".'
)
PROMPT_SOURCE = "VLM-RB, app. C, in our words"


def _quick(steps: int, source: str) -> Mapping[str, Any]:
    return {"training.steps": cite(steps, f"{QUICK}; {source}")}


def _difficulty(task: str, steps: int, test_length: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty: a grid, a budget, and evaluation episodes so short that chance rarely helps."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "narrow network, high learning rate"),
        "training.steps": cite(steps, reason),
        "suite.test_length": cite(test_length, "choice: random actions succeed in at most a tenth of the episodes"),
    }


@dataclass(frozen=True)
class DoorKeyDrawing(DrawingPart):
    """Frames for judges; the world and the agent's observations do not depend on these settings."""

    tile_size: Annotated[int, Bounds(4, 96), Unit("pixels")] = 32
    """Side length of a tile, drawn without MiniGrid's view highlight (choice: MiniGrid's own default)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: MiniGrid's sprites. `sprite_swap`: misleading sprites. `texture`: meaningless noise (VLM-RB, §4.2 and
    app. F.3)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    def spawn(self, task: str) -> Drawer:
        """Return the task's drawer; UserError for an unknown task."""
        from guidebench.suites.minigrid_doorkey.drawing import DoorKeyDrawer
        from guidebench.suites.minigrid_doorkey.perturbations import SpriteSwapDrawer, TextureDrawer

        if self.perturbation == "sprite_swap":
            return SpriteSwapDrawer(size(task), self.tile_size)
        if self.perturbation == "texture":
            return TextureDrawer(size(task), self.tile_size, self.seed)
        return DoorKeyDrawer(size(task), self.tile_size)


@register.suite("minigrid_doorkey")
@dataclass(frozen=True)
class MiniGridDoorKey(SuitePart):
    """MiniGrid's DoorKey with the full symbolic grid as observation and five actions."""

    length: Annotated[int | None, Bounds(1), Unit("environment steps"), Later] = None
    """Longest episode; null uses 10 n² (MiniGrid)."""
    test_length: Annotated[int | None, Bounds(1), Unit("environment steps"), Later] = None
    """Longest evaluation episode; null uses that of training, in which random actions reach the goal of a small grid in
    up to a quarter of the episodes (choice)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "MiniGrid DoorKey"
    source: ClassVar[str] = "VLM-RB, §4.1 and app. B; MiniGrid (Chevalier-Boisvert et al., 2023), minigrid 3.2.0"
    citation: ClassVar[str | Path] = Path(__file__).with_name("minigrid_doorkey.bib")
    tasks: ClassVar[tuple[str, ...]] = tuple(SIZES)
    learner: ClassVar[str] = "dqn"
    method: ClassVar[str] = "uer"
    events: ClassVar[tuple[str, ...]] = ("key", "door", "goal")
    drawing: ClassVar[type] = DoorKeyDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(1_000_000, "VLM-RB, figure 9 and table 4, whose budget is 1000K"),
        "evaluation.every": cite(2_000, "choice; every step in VLM-RB, table 7, is a multiple of 2K"),
        "evaluation.episodes": cite(32, "VLM-RB, §4.1"),
        "judge.transformers.prompt": cite(PROMPT, PROMPT_SOURCE),
        "judge.openai.prompt": cite(PROMPT, PROMPT_SOURCE),
    }
    judges: ClassVar[Mapping[str, str]] = {"paper": "transformers", "scripted": "sprite", "oracle": "oracle"}
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": ("8x8", "12x12", "16x16")},
        "quick": {
            "tasks": ("5x5",),
            "learner.dqn.lr": cite(3e-4, f"{QUICK}; table 3's needs several times the steps"),
            "learner.dqn.channels": cite(32, QUICK),
            "learner.dqn.batch_size": cite(64, f"{QUICK}; as good on 5x5 as 128 at half the cost"),
            "learner.iqn.lr": cite(3e-4, f"{QUICK}; as DQN's"),
            "learner.iqn.channels": cite(32, f"{QUICK}; as DQN's"),
            "learner.iqn.batch_size": cite(64, f"{QUICK}; as DQN's"),
            **cited("learner.dueling_dqn", f"{QUICK}; as DQN's", lr=3e-4, channels=32, features=256, trunk=(),
                    hidden=(256,), target_every=1_000, learning_starts=500, epsilon_end=0.05),
            "evaluation.every": cite(2_000, QUICK),
            "evaluation.episodes": cite(16, QUICK),
            "by_task": {
                "5x5": _quick(30_000, "uniform replay solved it within 28k"),
                "6x6": _quick(100_000, "uniform replay solved it for good by 76k"),
                "7x7": _quick(125_000, "between those of 6x6 and 8x8"),
                "8x8": _quick(150_000, "uniform replay solved 13 of 16 episodes by 110k"),
                "12x12": _quick(300_000, "twice that of 8x8"),
                "16x16": _quick(500_000, "half of the paper's"),
            },
        },
        "smoke": {
            "tasks": ("5x5",),
            "training.steps": cite(600, SMOKE),
            "evaluation.every": cite(200, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
            "learner.dqn.channels": cite(8, SMOKE),
            "learner.dqn.learning_starts": cite(128, SMOKE),
            "learner.dqn.batch_size": cite(32, SMOKE),
            "learner.iqn.channels": cite(8, SMOKE),
            "learner.iqn.learning_starts": cite(128, SMOKE),
            "learner.iqn.batch_size": cite(32, SMOKE),
            "learner.iqn.train_quantiles": cite(8, SMOKE),
            "learner.iqn.target_quantiles": cite(8, SMOKE),
            **cited("learner.dueling_dqn", SMOKE, channels=8, features=32, trunk=(), hidden=(32,), learning_starts=128,
                    batch_size=32),
            "judge.delay": cite(64, SMOKE),
        },
    }  # fmt: skip

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "5x5_30k": _difficulty("5x5", 30_000, 100, "`uer` ended at .54 in measured/doorkey_5x5"),
        "6x6_50k": _difficulty("6x6", 50_000, 150, "`uer` was at .69 by then in measured/doorkey_6x6"),
        "6x6_80k": _difficulty("6x6", 80_000, 150, "`uer` has an area of .47 in measured/doorkey_vlm_rb"),
        "7x7_100k": _difficulty("7x7", 100_000, 250, "choice: between 6x6 and 8x8"),
        "8x8_150k": _difficulty("8x8", 150_000, 400, "`uer` ended at .54 in measured/doorkey_8x8"),
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: uint8 [n, n, 3], the codes of object (11), colour (6) and state (4) of each cell. Actions: five
        choices."""
        n = size(task)
        return Observations((n, n, 3), "uint8", categories=(11, 6, 4)), Actions(count=5)

    def __post_init__(self) -> None:
        check_settings(self, "suite")

    def horizon(self, task: str) -> int:
        """Return `suite.length`, or 10 n² (MiniGrid)."""
        return self.length or 10 * size(task) ** 2

    def in_evaluation(self) -> MiniGridDoorKey:
        """Return the suite with episodes of `test_length` steps."""
        return self if self.test_length is None else replace(self, length=self.test_length)

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets; the same for every size, since a step
        changes one cell."""
        return 3e-6

    def make(self, task: str) -> DoorKey:
        from guidebench.suites.minigrid_doorkey.task import DoorKey

        return DoorKey(size(task), self.horizon(task))

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return the scripted solver's episode in layout `seed`: shortest paths to key, door and goal in turn."""
        from guidebench.harness.episodes.demonstrations import play

        solved = self.make(task)
        return play(solved, seed, lambda observation: solved.expert())


def size(task: str) -> int:
    """Return the cells along one side of a task's grid, including walls; UserError for an unknown task."""
    if task not in SIZES:
        raise unknown("task", task, SIZES)
    return SIZES[task]


ELSEWHERE = "it knows the sprites of the suite minigrid_doorkey alone"
"""Reason why the judge written for this suite rejects other suites."""


@register.judge("sprite")
@dataclass(frozen=True)
class Sprite(ModelPart):
    """Recognises MiniGrid's standard sprites; answers yes if a key is taken, a door opened or the goal reached."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: the paper's model needs .46 s per clip, 45 steps at its 97 steps/s (VLM-RB, tables 5 and 6);
    1024 leaves room for a queue of 20)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds")] = 120.0
    """Time limit of one clip, after which the judge's process is restarted (choice: ample; a clip takes milliseconds,
    drawing the sprites at 96 pixels per tile half a minute)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written for this task"
    backend: ClassVar[str] = "scripted"
    suites: ClassVar[tuple[str, ...]] = ("minigrid_doorkey",)
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "hand-written for this task"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot answer in this cell, or ""."""
        return "" if isinstance(view.suite, MiniGridDoorKey) else ELSEWHERE

    def spawn(self, suite: Suite, task: str) -> Judge:
        """Return the judge for frames of `task` at any tile size; UserError for another suite."""
        if not isinstance(suite, MiniGridDoorKey):
            raise UserError(f"judge 'sprite' cannot judge {suite.title}: {ELSEWHERE}; choose another judge=")
        from guidebench.suites.minigrid_doorkey.sprite import SpriteJudge

        return SpriteJudge(size(task))
