"""OGBench's scene: a robot arm, a cube, a drawer and a window, and two buttons that lock them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Actions, Array, Drawer, Judge, Observations, Suite, Task
from guidebench.harness.parts import CellView, ModelPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit, cite, cited
from guidebench.suites.mujoco.looks import Looks

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration

SUBGOALS = ("cube", "button_0", "button_1", "drawer", "window")
PAPER = ("task3", "task4", "task5")
PARTIAL = {"button": ("button_0",), "drawer": ("drawer",), "unlock_window": ("button_1", "window")}
"""Our tasks -> their subgoals, one or two of the package's five."""
TASKS = (*PAPER, *PARTIAL)
CALIBRATED = ("top", "side")
"""Cameras of our own that stand still; the package has none from above."""
CENTRE, SCALE = (0.425, 0.0, 0.0), 10.0
"""Observed positions are (position - CENTRE) * SCALE (the package)."""
TIP = slice(12, 15)
"""Observation entries of the gripper's position, after the arm's joints."""
HORIZON = {**dict.fromkeys(PAPER, 750), "button": 200, "drawer": 200, "unlock_window": 300}
TABLE = "VLM-RB, table 2"
QUICK = "quick profile: a cell in minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"
PROMPT = (
    "Watch these frames. Is there at least one moment at which a goal is visibly achieved? It shows in contact that "
    "moves something to where a goal would have it: an object is lifted off its surface, put into a container or "
    "brought to its place, or a part is opened or closed. Do not guess: if none of this can be seen, the answer is No. "
    'Reply with exactly "Answer: Yes" or "Answer: No".'
)
PROMPT_SOURCE = "VLM-RB, app. C, in our words"


def _learners(source: str, **values: Any) -> Mapping[str, Any]:
    """Return a layer of settings for both learners, SAC and TD3."""
    return {f"learner.{name}.{key}": cite(values[key], source) for name in ("sac", "td3") for key in values}


def _difficulty(task: str, steps: int, demonstrations: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty: a task, a budget, and the demonstrations that are given."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "two critics, one update a step"),
        "training.steps": cite(steps, reason),
        "training.demonstrations": cite(demonstrations, reason),
        **_learners("choice: three seeds within minutes", hidden=(128, 128), batch_size=128),
    }


@dataclass(frozen=True)
class SceneDrawing(Looks):
    """Frames for judges; the world and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(32, 1024), Unit("pixels")] = 200
    """Side length of a frame (choice: the package's own default)."""
    camera: Annotated[Literal["front", "top", "side", "both"], Later] = "front"
    """`front`: the package's camera for observers; `top` looks straight down, `side` faces the arm; `both`: `top` and
    `side` in one frame of twice the width (the package's own; the others: choice)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: objects as the package draws them. `sprite_swap`: objects exchange their appearance. `texture`: objects
    are covered with meaningless noise (VLM-RB, app. F.3, on MiniGrid)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    suite: ClassVar[str] = "ogbench_scene"
    package: ClassVar[str] = "ogbench"

    def spawn(self, task: str) -> Drawer:
        """Return the drawer; UserError for an unknown task, or where this machine cannot draw."""
        check(task)
        self.ready()
        from guidebench.suites.mujoco.cameras import BOTH
        from guidebench.suites.mujoco.drawing import SideBySide
        from guidebench.suites.ogbench_scene import drawing, perturbations

        if self.camera == BOTH:
            return SideBySide(*(replace(self, camera=camera).spawn(task) for camera in CALIBRATED))  # type: ignore[arg-type]
        full = self.quality == "full"
        if self.perturbation == "sprite_swap":
            return perturbations.swapped(self.size, full, self.camera)
        if self.perturbation == "texture":
            return perturbations.textured(self.size, full, self.seed, self.camera)
        return drawing.drawer(self.size, full, camera=self.camera)


@register.suite("ogbench_scene")
@dataclass(frozen=True)
class OgbenchScene(SuitePart):
    """OGBench's scene with its state as observation; the reward is shaped by the share of subgoals that hold."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "mujoco"
    title: ClassVar[str] = "OGBench Scene"
    source: ClassVar[str] = "VLM-RB, §4.1 and app. B; OGBench (Park et al., 2024), ogbench 1.2.2"
    citation: ClassVar[str | Path] = Path(__file__).with_name("ogbench_scene.bib")
    tasks: ClassVar[tuple[str, ...]] = TASKS
    learner: ClassVar[str] = "sac"
    method: ClassVar[str] = "uer"
    events: ClassVar[tuple[str, ...]] = SUBGOALS
    ordered: ClassVar[bool] = False
    drawing: ClassVar[type] = SceneDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(1_000_000, "VLM-RB, table 2 and app. F.1: 500k steps are half of training"),
        "training.capacity": cite(1_000_000, TABLE),
        "training.demonstrations": cite(10, "VLM-RB, app. B and table 2"),
        "evaluation.every": cite(2_000, "choice; every step in VLM-RB, table 7, is a multiple of 2K"),
        "evaluation.episodes": cite(32, "VLM-RB, §4.1"),
        "judge.transformers.prompt": cite(PROMPT, PROMPT_SOURCE),
        "judge.openai.prompt": cite(PROMPT, PROMPT_SOURCE),
    }
    judges: ClassVar[Mapping[str, str]] = {"paper": "transformers", "scripted": "motion", "oracle": "oracle"}
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": PAPER},
        "quick": {
            "tasks": ("drawer",),
            "training.steps": cite(50_000, QUICK),
            "evaluation.every": cite(2_500, QUICK),
            "evaluation.episodes": cite(16, QUICK),
            **_learners(QUICK, hidden=(256, 256), ensemble=2, utd=1, actor_utd=1, learning_starts=1_000),
            "learner.sac.alpha": cite(0.05, f"{QUICK}; from table 2's 1 the policy was still uniform after 10k steps"),
            "by_task": {task: {"training.steps": cite(500_000, f"{QUICK} for one subgoal; half the paper's for five")}
                        for task in PAPER},
        },
        "smoke": {
            "tasks": ("drawer",),
            "training.steps": cite(600, SMOKE),
            "training.capacity": cite(600, SMOKE),
            "training.demonstrations": cite(2, SMOKE),
            "evaluation.every": cite(200, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
            **_learners(SMOKE, hidden=(16, 16), ensemble=2, utd=1, actor_utd=1, learning_starts=128, batch_size=32),
            **cited("guide.preference", SMOKE, pretraining=256, every=128, queries=8, budget=24, hidden=(16, 16),
                    batch_size=32, updates_after_reset=4),
            "judge.delay": cite(64, SMOKE),
        },
    }  # fmt: skip

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "button_5k": _difficulty("button", 5_000, 2, "area of `uer` .25 .34 .25, piloted"),
        "drawer_20k": _difficulty("drawer", 20_000, 10, "area of `uer` .41 .49 .24, piloted"),
        "unlock_window_10k": _difficulty(
            "unlock_window", 10_000, 10, "two subgoals, the first unlocks; area of `uer` .22 .20 .03, piloted"
        ),
        "unlock_window_20k": _difficulty("unlock_window", 20_000, 10, "area of `uer` .52 .38 .21, piloted"),
        "unlock_window_50k": _difficulty("unlock_window", 50_000, 10, "area of `uer` .82 .75 .68, piloted"),
        "unlock_window_2_30k": _difficulty("unlock_window", 30_000, 2, "area of `uer` .34 .08 .11, piloted"),
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: float32 [40], arm, gripper, cube, buttons, drawer and window as the package scales them.
        Actions: float32 [5], the gripper's motion along x, y and z, its rotation, and its opening."""
        check(task)
        return Observations((40,), "float32"), Actions(shape=(5,))

    def horizon(self, task: str) -> int:
        """Return 750 (VLM-RB, app. B), 200 for tasks with one subgoal, or 300 for two (choice)."""
        check(task)
        return HORIZON[task]

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets."""
        check(task)
        return 1.6e-3

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, or where the package is missing."""
        from guidebench.suites.mujoco import need

        check(task)
        need("ogbench", "suite ogbench_scene")

    def make(self, task: str) -> Task:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.ogbench_scene.task import Scene

        return Scene(task)

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return a solution of layout `seed` by the package's own oracles; None if one of them fails."""
        from guidebench.suites.mujoco import need

        check(task)
        need("ogbench", "suite ogbench_scene")
        from guidebench.suites.ogbench_scene.demonstrations import demonstrate

        return demonstrate(task, seed)

    def cameras_of(self, task: str) -> tuple[str, ...]:
        """Return the names of the calibrated cameras, the one from above first."""
        check(task)
        return CALIBRATED

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        """Return the pixels (column, row), float [n, 2], of points [n, 3] of the world, in metres, in a camera's square
        frame of `size` pixels (`capabilities.Projects`); UserError for an unknown camera or other shapes."""
        check(task)
        from guidebench.suites.ogbench_scene import cameras

        return cameras.project(camera, points, size)

    def tip(self, task: str, observations: Array) -> Array:
        """Return the point between the fingers in the world, metres, float64 [n, 3], by observations [n, 40]."""
        check(task)
        return np.asarray(observations[..., TIP], float) / SCALE + CENTRE

    def located(self, task: str, snapshot: Array) -> Array:
        """Return the position of a task's object (button, handle of drawer or window, or cube) and its target position,
        metres, float64 [2, 3] (`capabilities.Locates`). Privileged."""
        self.ready(task)
        from guidebench.suites.ogbench_scene.cameras import located

        return located(task, snapshot)

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first state in which the package's own oracles have solved layout `seed`; None
        where one of them fails."""
        from guidebench.suites.mujoco import need

        check(task)
        need("ogbench", "suite ogbench_scene")
        from guidebench.suites.ogbench_scene.demonstrations import goal_snapshot

        return goal_snapshot(task, seed)


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)


ELSEWHERE = "it knows the objects of the suite ogbench_scene alone"
"""Reason why the judge written for this suite rejects other suites."""


@register.judge("motion")
@dataclass(frozen=True)
class Motion(ModelPart):
    """Recognises the scene's objects; answers yes if the drawer, the window or the cube moves, or a button switches."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Environment steps between a question and the use of its answer; null uses each answer on arrival, which is not
    reproducible (choice: as the other judges' default)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds")] = 120.0
    """Time limit of one clip, after which the judge's process is restarted (choice: ample; a clip of 32 frames takes a
    second to draw in software, the first a few more)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written for this task"
    backend: ClassVar[str] = "scripted"
    suites: ClassVar[tuple[str, ...]] = ("ogbench_scene",)
    privileged: ClassVar[bool] = False
    title: ClassVar[str] = "hand-written for this task"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot answer in this cell, or ""."""
        return "" if isinstance(view.suite, OgbenchScene) else ELSEWHERE

    def spawn(self, suite: Suite, task: str) -> Judge:
        """Return the judge for frames of any size and any task of the suite; UserError for another suite."""
        if not isinstance(suite, OgbenchScene):
            raise UserError(f"judge 'motion' cannot judge {suite.title}: {ELSEWHERE}; choose another judge=")
        from guidebench.suites.ogbench_scene.motion import MotionJudge

        check(task)
        return MotionJudge()
