"""MetaWorld: fifty tasks of one robot arm at a table, singly, in alternation, and as configured in two papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.interfaces import Actions, Array, Coordinates, Drawer, Observations, Task
from guidebench.harness.parts import SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite, cited
from guidebench.suites.metaworld import spatial as spatial  # registers the embedder
from guidebench.suites.metaworld.words import GRIPPER, INSTRUCTIONS, LAGEA, object_words, target_words
from guidebench.suites.mujoco.looks import Looks

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration

TASKS = tuple(INSTRUCTIONS)
MT10 = (
    "button-press-topdown", "door-open", "drawer-close", "drawer-open", "peg-insert-side", "pick-place", "push",
    "reach", "window-close", "window-open",
)  # fmt: skip
PBRL = (
    "button-press", "drawer-open", "drawer-close", "door-open", "door-unlock", "window-open", "handle-pull", "reach",
)  # fmt: skip
BY_TURNS = "mt10"
"""Task that alternates between MT10's tasks; one is drawn for each episode."""
HORIZON = 500
LAYOUTS = 50
"""Layouts per task where several tasks alternate (MetaWorld, `_N_GOALS`)."""
REDUCED = (*range(7), *range(18, 25), 36, 37, 38)
"""Observation entries of the hand, the gripper's opening and the first object, now and one step before, and of the
target."""
HAND = (0, 1, 2, 18, 19, 20, 36, 37, 38)
"""Observation entries of the hand, now and one step before, and of the target."""
MEASURES: Mapping[str, str] = {
    "near_object": "1 if the hand is at the object, else 0; in a few tasks a grade in [0, 1], and in reach the hand's "
    "distance to the target in metres",
    "grasp_success": "1 if the gripper holds the object, else 0; constant in the tasks that need no grasp",
    "obj_to_target": "distance of the object to its target in metres; constantly 0 in a few tasks, such as door-open",
}
"""Entries of `info` that the package's `evaluate_state` fills in for all fifty tasks: name -> meaning. The exceptions
were observed in one episode of each task's scripted policy and one of random actions."""
SAC, PREFERENCE = "learner.sac", "guide.preference"
REACH = ((-0.525, 0.525), (0.348, 1.025), (-0.0525, 0.7))
"""Smallest and largest x, y, z in metres of the gripper, and so of what it moves (the package's `_HAND_SPACE`)."""
TABLE = "RL-SaLLM-F, table 2"
CODE = "RL-SaLLM-F, released code"
BPREF = "B-Pref's code, agent/actor.py and utils.py, of which RL-SaLLM-F's is a copy"
FURL = "FuRL, as LaGEA, §4"
PROFILE_QUICK = "quick profile: a cell in tens of minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"
Camera = Literal["corner2", "corner", "corner3", "corner4", "topview", "behindGripper", "gripperPOV", "both"]
CALIBRATED = ("topview", "corner", "corner2", "corner3", "corner4")
"""Cameras that stand still; the first two are those of `both`, since `corner` is the least inclined."""
SPEED = 10.0
"""Commanded motion per metre of distance (the package's scripted policies)."""
FINGERS = (0.0, 0.0, -0.045)
"""Position of the point between the fingers from the observed one of the hand, which never turns, metres (measured on
all fifty tasks: within half a millimetre at rest, and within three while it moves)."""


TWIN = {
    "ensemble": 2, "subset": 2, "target_reduction": "min", "actor_reduction": "min", "layer_norm": False,
    "max_grad_norm": None, "utd": 1, "actor_utd": 1,
}  # fmt: skip
"""SAC as it usually is: two critics, the smaller one counts, one update a step."""
ONE_TASK: Mapping[str, Any] = {
    "training.steps": cite(500_000, TABLE),
    "training.capacity": cite(500_000, "choice: all of a run"),
    "evaluation.every": cite(10_000, "choice: fifty evaluations"),
    "evaluation.episodes": cite(10, "choice"),
    **cited(SAC, TABLE, hidden=(256, 256, 256), batch_size=512, actor_lr=3e-4, critic_lr=3e-4, discount=0.99,
            target_rate=0.005, alpha=0.1, target_frequency=2),
    **cited(SAC, CODE, alpha_lr=1e-4, target_entropy_scale=1.0, learning_starts=1_000, **TWIN),
    **cited(SAC, BPREF, log_std="tanh", log_std_min=-5.0, initialisation="orthogonal"),
}  # fmt: skip
"""RL-SaLLM-F's protocol."""
SHORTENED: Mapping[str, Mapping[str, Any]] = {
    "quick": {
        "training.steps": cite(80_000, PROFILE_QUICK),
        "training.capacity": cite(80_000, PROFILE_QUICK),
        "evaluation.every": cite(5_000, PROFILE_QUICK),
        "evaluation.episodes": cite(10, PROFILE_QUICK),
        **cited(SAC, PROFILE_QUICK, batch_size=256, learning_starts=1_000),
        **cited(PREFERENCE, f"{PROFILE_QUICK}; half of the queries", pretraining=5_000, every=1_500, budget=1_000),
    },
    "smoke": {
        "training.steps": cite(600, SMOKE),
        "training.capacity": cite(600, SMOKE),
        "evaluation.every": cite(300, SMOKE),
        "evaluation.episodes": cite(1, SMOKE),
        **cited(SAC, SMOKE, hidden=(16, 16), batch_size=32, learning_starts=128),
        **cited(
            PREFERENCE,
            SMOKE,
            pretraining=256,
            every=128,
            queries=8,
            budget=24,
            hidden=(16, 16),
            batch_size=32,
            updates_after_reset=4,
        ),
    },
}
EASY = ("button-press",)
"""Task that SAC learns quickly: 40 % of its episodes succeed after 30,000 steps of `quick`, one seed (choice)."""


NARROW = "choice: narrow networks and small batches, for speed on one core"
RATES = dict.fromkeys(("actor_lr", "critic_lr", "alpha_lr"), 1e-3)
"""Learning rates of narrow networks (choice): with the papers' a policy hardly changes within so few steps."""


def _difficulty(task: str, steps: int, reason: str, **learner: Any) -> Mapping[str, Any]:
    """Return the words of a difficulty: a task and a budget, for networks and batches that train within minutes.
    `learner`: further settings of SAC."""
    settings = {"hidden": (128, 128), "batch_size": 128, **learner}
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "fewer queries"),
        "training.steps": cite(steps, reason),
        "training.capacity": cite(steps, "choice: all of a run"),
        "evaluation.every": cite(steps // 8, "choice: eight evaluations"),
        **cited(SAC, NARROW, **settings),
    }


def _preferred(task: str, steps: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty for methods that learn a reward from preferences: queries are shares of the
    budget, but none before the learner's first update (`learning_starts`)."""
    return {
        **_difficulty(task, steps, reason, hidden=(64, 64), batch_size=64, **RATES),
        **cited(PREFERENCE, "choice: shares of the budget", pretraining=max(steps // 16, 1_000), every=steps // 50,
                budget=steps // 80),
        **cited(PREFERENCE, NARROW, hidden=(64, 64)),
        **cited(PREFERENCE, "choice: few queries give few gradient steps", lr=1e-3, epochs=50),
    }  # fmt: skip


def _sparse(task: str, steps: int, reason: str, reward: str = "sparse") -> Mapping[str, Any]:
    """Return the words of a difficulty of MT10: rates and a temperature at which a policy leaves its maximum of entropy
    within the budget."""
    return {
        **_difficulty(task, steps, reason, hidden=(64, 64), batch_size=64, alpha=0.02, **RATES),
        "suite.reward": cite(reward, reason),
    }


GUIDES = ("liv", "liv_proj", "furl", "lagea")
"""Guides that embed the frames of MT10."""
FINDING = "quick profile: at these FuRL learnt reach within 10,000 steps in a trial (one seed), and SAC did not"
QUICK_MT10: Mapping[str, Any] = {
    "training.steps": cite(30_000, PROFILE_QUICK),
    "training.capacity": cite(30_000, PROFILE_QUICK),
    "evaluation.every": cite(2_500, PROFILE_QUICK),
    "evaluation.episodes": cite(10, PROFILE_QUICK),
    "drawing.size": cite(128, PROFILE_QUICK),
    **cited(SAC, FINDING, hidden=(64, 64), batch_size=64, actor_lr=1e-3, critic_lr=1e-3, alpha_lr=1e-3, alpha=0.02),
    **cited(SAC, PROFILE_QUICK, learning_starts=1_000),
    **{f"guide.{guide}.every": cite(4, PROFILE_QUICK) for guide in GUIDES},
    **{f"guide.{guide}.rho": cite(0.2, FINDING) for guide in GUIDES[:3]},
    **{f"guide.{guide}.batch_size": cite(64, f"{PROFILE_QUICK}; as the learner's") for guide in GUIDES[2:]},
}
"""Settings of MT10's short profiles, the same in all rows. FuRL's α of 1 and its rates of 1e-4 leave a policy uniform
for longer than these budgets last."""
SMOKE_MT10: Mapping[str, Any] = {
    **SHORTENED["smoke"],
    "drawing.size": cite(64, SMOKE),
    **{f"guide.{guide}.every": cite(8, SMOKE) for guide in GUIDES},
    **cited("guide.furl", SMOKE, hidden=(16,), out=8, batch_size=16),
    **cited("guide.lagea", SMOKE, hidden=(16,), out=8, batch_size=16),
}


def spellings(*tasks: str) -> Mapping[str, str]:
    """Return other spellings of tasks -> task name: with a version suffix, and with underscores."""
    names = ((f"{task}{version}", task) for task in tasks for version in ("", "-v2", "-v3"))
    both = {spelt: task for name, task in names for spelt in (name, name.replace("-", "_"))}
    return {name: task for name, task in both.items() if name != task}


@dataclass(frozen=True)
class MetaWorldDrawing(Looks):
    """Frames for models; the world and the agent's observations do not depend on these settings."""

    camera: Camera = "corner2"
    """Camera of the package that takes the frames; `both`: `topview` and `corner` in one frame of twice the width
    (FuRL: corner2)."""
    orientation: Literal["upright", "package", "mirrored"] = "upright"
    """`upright`: frames of a camera that hangs upside down, such as the four corner cameras, are rotated by 180°.
    `package`: as the package's `render()` returns them. `mirrored`: those with their rows reversed, which shows a
    corner camera's picture upright with left and right exchanged (FuRL's and RL-SaLLM-F's code)."""
    size: Annotated[int, Bounds(32, 1024), Unit("pixels")] = 256
    """Side length of a frame (FuRL)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: the scene as the package draws it. `sprite_swap`: the object and the arm exchange their appearance.
    `texture`: both are covered with meaningless noise (VLM-RB, app. F.3, on MiniGrid)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    suite: ClassVar[str] = "metaworld"
    package: ClassVar[str] = "metaworld"

    def spawn(self, task: str) -> Drawer:
        """Return the task's drawer; UserError for an unknown task, or where this machine cannot draw."""
        check(task)
        self.ready()
        from guidebench.suites.metaworld.drawing import drawer

        return drawer(parts(task), self)


@register.suite("metaworld")
@dataclass(frozen=True)
class MetaWorld(SuitePart):
    """MetaWorld's fifty tasks with state observations; task names omit MetaWorld's version suffix."""

    goal: Literal["observable", "hidden"] = "observable"
    """`observable`: observations contain the target. `hidden`: they contain zeros in its place (MetaWorld's multi-task
    and meta-learning form)."""
    layouts: Literal["by_goal", "random", "by_run", "fixed"] = "random"
    """`random`: each episode has its own layout. `by_run`: all episodes of a run, in training and evaluation, have the
    layout of the package's environment seeded with the run's seed. `fixed`: all episodes of all runs have the layout
    `suite.layout`. `by_goal`: `by_run` if the goal is hidden, otherwise `random` (FuRL, its two modes)."""
    layout: Annotated[int, Bounds(0)] = 0
    """Seed of the package's environment that determines the layout under `layouts=fixed` (choice)."""
    reward: Literal["dense", "sparse"] = "dense"
    """`dense`: the package's own reward in [0, 10]. `sparse`: 0 on success, otherwise -1 (FuRL)."""
    state: Literal["full", "reduced"] = "full"
    """`full`: all 39 entries of the package's observation. `reduced`: the 17 entries of the gripper's position and
    opening, the object and the target; for `reach`, 9 of them, without opening and object (RL-SaLLM-F, app. B.1)."""
    instructions: Literal["own", "lagea"] = "own"
    """Task instruction given to models: `own`, written for this benchmark, or `lagea`, the sentences in LaGEA's table
    for the ten tasks of MT10 (own: choice; LaGEA, table 4)."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "mujoco"
    title: ClassVar[str] = "MetaWorld"
    source: ClassVar[str] = "MetaWorld (Yu et al., 2020), metaworld 3.1.1; learner as RL-SaLLM-F (choice)"
    citation: ClassVar[str | Path] = Path(__file__).with_name("metaworld.bib")
    tasks: ClassVar[tuple[str, ...]] = TASKS
    aliases: ClassVar[Mapping[str, str]] = spellings(*TASKS)
    learner: ClassVar[str] = "sac"
    method: ClassVar[str] = "sac"
    events: ClassVar[tuple[str, ...]] = ("success",)
    ordered: ClassVar[bool] = True
    drawing: ClassVar[type] = MetaWorldDrawing
    defaults: ClassVar[Mapping[str, Any]] = ONE_TASK
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "quick": {"tasks": EASY, **SHORTENED["quick"]},
        "smoke": {"tasks": EASY, **SHORTENED["smoke"]},
    }

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "reach_10k": _difficulty("reach", 10_000, "choice: the nearest target"),
        "button_press_20k": _difficulty(
            "button-press", 20_000, "SAC was at .27 by then in measured/metaworld_pbrl_quick"
        ),
        "button_press_40k": _difficulty(
            "button-press", 40_000, "SAC was at .40 by then in measured/metaworld_pbrl_quick"
        ),
        "window_open_30k": _difficulty("window-open", 30_000, "choice: random actions never solve it"),
        "drawer_open_30k": _difficulty("drawer-open", 30_000, "choice: random actions never solve it"),
    }

    @property
    def fixed(self) -> bool:
        """Whether every episode of a run has the same layout."""
        return self.layouts == "fixed" or self._by_run

    @property
    def _by_run(self) -> bool:
        """Whether the layout follows from the run's seed."""
        return self.layouts == "by_run" or (self.layouts == "by_goal" and self.goal == "hidden")

    def of_run(self, seed: int) -> MetaWorld:
        """Return this suite with the layout of the run with this seed, where runs differ in layout."""
        return replace(self, layouts="fixed", layout=seed) if self._by_run else self

    def repeats(self, task: str) -> bool:
        """Return whether every episode of a run begins in the same state: one layout and one task."""
        self._check(task)
        return self.fixed and len(parts(task)) == 1

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: float32 [39], [17] or [9] (`state`), with one more entry per task where several tasks
        alternate. Actions: float32 [4], the hand's motion along x, y and z, and the gripper's closing force."""
        self._check(task)
        several = len(names) if len(names := parts(task)) > 1 else 0
        width = len(entries(names[0], self.state, bool(several)))
        return Observations((width + several,), "float32"), Actions(shape=(4,))

    def horizon(self, task: str) -> int:
        """Return the package's episode length, the same for every task."""
        self._check(task)
        return HORIZON

    def shortest(self, task: str) -> int:
        """Return the package's episode length: a success ends no episode."""
        return self.horizon(task)

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets."""
        self._check(task)
        return 3e-4

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, or where the package is missing."""
        from guidebench.suites.mujoco import need

        self._check(task)
        need("metaworld", "suite metaworld")

    def make(self, task: str) -> Task:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.metaworld.task import MetaWorldTask

        return MetaWorldTask(parts(task), self)

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return an episode of layout `seed` by the package's scripted policy; None if it does not end in success."""
        from guidebench.harness.episodes.demonstrations import play

        acting: Any = self.make(task)
        return play(acting, seed, lambda observation: acting.expert())

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first success of the package's scripted policy in the episode of layout `seed`;
        None if it never succeeds. The policy knows the target even if observations hide it."""
        from guidebench.harness.episodes.demonstrations import first_success

        acting: Any = self.make(task)
        return first_success(acting, seed, lambda observation: acting.expert())

    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        """Return the gripper, the object and the target, where an observation holds them."""
        self._check(task)
        names = parts(task)
        indices = entries(names[0], self.state, len(names) > 1)

        def at(first: int) -> tuple[int, ...]:
            return tuple(indices.index(first + axis) for axis in range(3) if first + axis in indices)

        named = [
            Coordinates("tcp", GRIPPER, at(0), at(18), reach=REACH),
            Coordinates("obj", object_words(task), at(4), at(22), reach=REACH),
            Coordinates("target", target_words(task), at(36), constant=True),
        ]
        return tuple(
            coordinate
            for coordinate in named
            if coordinate.entries and (coordinate.name, self.goal) != ("target", "hidden")
        )

    def rewards(self, task: str, observations: Array) -> Array:
        """Return the package's reward, float64 [n], of observations [n, D]; NaN where an observation lacks an input of
        the reward (`suites/metaworld/rewards.py`)."""
        from guidebench.suites.mujoco import need

        self._check(task)
        need("metaworld", "suite metaworld")
        from guidebench.suites.metaworld.rewards import rewards

        return rewards(task, observations, self)

    def cameras_of(self, task: str) -> tuple[str, ...]:
        """Return the names of the cameras that stand still: `topview`, then `corner` and the other corners."""
        self._check(task)
        return CALIBRATED

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        """Return the pixels (column, row), float [n, 2], of points [n, 3] of the world, in metres, in a camera's
        upright square frame of `size` pixels (`capabilities.Projects`); UserError for an unknown camera or other
        shapes."""
        self.ready(task)
        from guidebench.suites.metaworld import cameras

        return cameras.project(parts(task)[0], camera, points, size)

    def tip(self, task: str, observations: Array) -> Array:
        """Return the point between the fingers in the world, metres, float64 [n, 3], by observations [n, D]."""
        self._check(task)
        return np.asarray(observations[..., :3], float) + FINGERS

    def towards(self, task: str, observations: Array, places: Array, closed: Array) -> Array:
        """Return the actions, float32 [n, 4], that move the fingers to places of the world (`capabilities.Steers`); the
        hand goes as fast as the package's scripted policies let it."""
        moves = np.clip(SPEED * (np.asarray(places, float) - self.tip(task, observations)), -1, 1)
        force = np.where(np.asarray(closed, bool), 1.0, -1.0)
        return np.concatenate([moves, force[:, None]], axis=1, dtype=np.float32)

    def instruction_at(self, task: str, snapshot: Array) -> str:
        """Return the instruction of a snapshot's episode (`capabilities.InstructsBySnapshot`); UserError for a snapshot
        that names no task."""
        self._check(task)
        names = parts(task)
        number = int(snapshot[0]) if len(names) > 1 else 0
        if number >= len(names):
            raise UserError(f"a snapshot of {task!r} names task {number}, and there are {len(names)}")
        return self.instruction(names[number])

    def located(self, task: str, snapshot: Array) -> Array:
        """Return the position of the task's object (in `reach`, of the tip) and its target position, metres, float64
        [2, 3] (`capabilities.Locates`); UserError for tasks whose scene marks no such place. Privileged."""
        self.ready(task)
        from guidebench.suites.metaworld.cameras import located

        return located(parts(task), snapshot)

    def measures(self, task: str) -> Mapping[str, str]:
        """Return what the package measures after each step, name -> meaning. Privileged: for oracles only."""
        self._check(task)
        return MEASURES

    def _check(self, task: str) -> None:
        if task not in self.tasks:
            raise unknown("task", task, self.tasks)
        if self.instructions == "lagea" and not set(parts(task)) <= set(LAGEA):
            raise UserError(
                f"suite.instructions=lagea, and LaGEA's table 4 has no instruction for {task!r}; choose a task of MT10 "
                f"({', '.join(LAGEA)}) or suite.instructions=own"
            )

    def instruction(self, name: str) -> str:
        """Return the instruction of the environment `name`, in words."""
        return (LAGEA if self.instructions == "lagea" else INSTRUCTIONS)[name]


@register.suite("metaworld_mt10")
@dataclass(frozen=True)
class MetaWorldMT10(MetaWorld):
    """Ten tasks with sparse reward, with goals either hidden and fixed or observable and random, and one task that
    alternates between all ten."""

    goal: Literal["observable", "hidden"] = "hidden"
    layouts: Literal["by_goal", "random", "fixed"] = "by_goal"
    reward: Literal["dense", "sparse"] = "sparse"
    instructions: Literal["own", "lagea"] = "lagea"

    version: ClassVar[int] = 2
    title: ClassVar[str] = "MetaWorld MT10"
    source: ClassVar[str] = "FuRL (Fu et al., 2024) and LaGEA, §4; metaworld 3.1.1"
    tasks: ClassVar[tuple[str, ...]] = (*MT10, BY_TURNS)
    by_turns: ClassVar[tuple[str, ...]] = (BY_TURNS,)
    joint: ClassVar[tuple[str, ...]] = (BY_TURNS,)
    aliases: ClassVar[Mapping[str, str]] = spellings(*MT10)
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(1_000_000, FURL),
        "training.capacity": cite(500_000, FURL),
        "evaluation.every": cite(100_000, FURL),
        "evaluation.episodes": cite(10, f"{FURL}, observable goals"),
        **cited(SAC, FURL, hidden=(256, 256), batch_size=256, actor_lr=1e-4, critic_lr=1e-4, alpha_lr=1e-4,
                discount=0.99, target_rate=0.01, target_entropy_scale=0.5, learning_starts=10_000, **TWIN),
        **cited(SAC, "choice: Haarnoja et al. (2018)", alpha=1.0),
        "by_task": {
            BY_TURNS: {
                "suite.goal": cite("observable", "MetaWorld, MT10"),
                "suite.reward": cite("dense", "MetaWorld, MT10"),
                "training.steps": cite(20_000_000, "choice: two million of each task"),
                "training.capacity": cite(1_000_000, "choice"),
                "evaluation.every": cite(200_000, "choice"),
                "evaluation.episodes": cite(100, "choice: about ten of each task"),
                **cited(SAC, "choice", batch_size=1_280, hidden=(400, 400, 400)),
            }
        },
    }  # fmt: skip
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": MT10},
        "quick": {"tasks": ("reach",), **QUICK_MT10},
        "quick_all": {
            "tasks": MT10,
            **QUICK_MT10,
            "training.steps": cite(20_000, "quick_all profile: ten tasks within six core-hours a method, five seeds"),
            "training.capacity": cite(20_000, "choice: all of a run"),
            "evaluation.every": cite(5_000, "choice: four evaluations"),
        },
        "smoke": {"tasks": ("reach",), **SMOKE_MT10},
    }
    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "reach_10k": _sparse("reach", 10_000, "FuRL reached 1 with such settings in a trial, and SAC 0 (one seed)"),
        "reach_30k": _sparse("reach", 30_000, "choice: the same for longer"),
        "reach_dense_5k": _sparse("reach", 5_000, "choice: the package's reward shows the way", "dense"),
        "reach_dense_10k": _sparse("reach", 10_000, "choice: the same for longer", "dense"),
        "window_close_dense_20k": _sparse("window-close", 20_000, "choice: random actions never solve it", "dense"),
        "drawer_open_dense_20k": _sparse("drawer-open", 20_000, "choice: random actions never solve it", "dense"),
    }


@register.suite("metaworld_pbrl")
@dataclass(frozen=True)
class MetaWorldPbRL(MetaWorld):
    """Eight tasks with reduced states, as RL-SaLLM-F learns them from preferences."""

    state: Literal["full", "reduced"] = "reduced"

    title: ClassVar[str] = "MetaWorld PbRL"
    source: ClassVar[str] = "RL-SaLLM-F, §5 and app. A, B.1; metaworld 3.1.1"
    tasks: ClassVar[tuple[str, ...]] = PBRL
    aliases: ClassVar[Mapping[str, str]] = spellings(*PBRL)
    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "reach_10k": _preferred("reach", 10_000, "choice: the nearest target, seen in nine numbers"),
        "reach_20k": _preferred("reach", 20_000, "choice: the same for longer"),
        "button_press_40k": _preferred(
            "button-press", 40_000, "choice: half of the budget of measured/metaworld_pbrl_quick"
        ),
        "window_open_40k": _preferred("window-open", 40_000, "choice: random actions never solve it"),
        "drawer_open_40k": _preferred("drawer-open", 40_000, "choice: random actions never solve it"),
    }


def check(task: str) -> None:
    """Raise UserError for a task that none of these suites has."""
    if task not in (*TASKS, BY_TURNS):
        raise unknown("task", task, (*TASKS, BY_TURNS))


def parts(task: str) -> tuple[str, ...]:
    """Return the environments of a task: several where they alternate."""
    return MT10 if task == BY_TURNS else (task,)


def entries(task: str, state: str, several: bool) -> tuple[int, ...]:
    """Return the indices of the package's 39 observation entries that a task's observation holds. With `several`, as
    many for every task, since tasks that alternate within a run need observations of one shape."""
    if state == "full":
        return tuple(range(39))
    return HAND if task == "reach" and not several else REDUCED
