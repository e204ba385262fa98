"""Bin sorting: an arm puts coloured blocks from a tray into the named bins, and back, without anyone resetting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from guidebench.harness.errors import unknown
from guidebench.harness.interfaces import Actions, Array, Drawer, Observations, ReadsPrompts, Task
from guidebench.harness.parts import CellView, DatasetPart, ModelPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Transport, Unit, check_settings, cite, cited
from guidebench.suites.bin_sorting.words import COLOURS, PLACES
from guidebench.suites.mujoco.looks import Looks

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration, Trajectory
    from guidebench.suites.bin_sorting.calibration import Regressor

TASKS = ("sorting", "forward", "backward", "other")
EVENTS = ("lifted", "brought", "placed")
FAILURES = ("miss", "drop", "wrong place")
"""Ways in which a scripted policy fails: it closes beside the block, drops it beside the tray, brings it elsewhere."""
CAMERAS_OF: Mapping[str, tuple[str, ...]] = {"side": ("side",), "top": ("top",), "both": ("side", "top")}
CALIBRATED = ("top", "side")
SIDE = 100
"""Pixels along the side of an observed image."""
CENTRE = (0.42, 0.0, 0.1)
SCALE = 5.0
"""Observed positions are (position - CENTRE) * SCALE: within about -2 and 2."""
ARM_NUMBERS = 7
"""Numbers of the arm's own state."""
STATE = ARM_NUMBERS + 1 + 3 + 2 + 9 + len(COLOURS) + len(PLACES)
PUBLISHED = "RoboFuME's simulator, as published"
PAPER = "KAGI, §IV-B"
QUICK = "quick profile: a cell in minutes on two cores"
FEWER = "quick profile: for thousands of gradient steps, not a million"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


@dataclass(frozen=True)
class BinDrawing(Looks):
    """Frames for models; the world and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(32, 1024), Unit("pixels")] = 100
    """Side length of a frame (KAGI, §IV-B)."""
    camera: Literal["top", "side", "both"] = "side"
    """`top` looks straight down; `side` faces the arm from across the table; `both`: `top` and `side` in one frame of
    twice the width (KAGI, §III: a top-down and a side image)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: objects in their colours. `sprite_swap`: blocks exchange their colours, and bins theirs. `texture`:
    objects are covered with meaningless noise (VLM-RB, app. F.3, on MiniGrid)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    suite: ClassVar[str] = "bin_sorting"
    package: ClassVar[str] = "ogbench"

    def spawn(self, task: str) -> Drawer:
        """Return the drawer; UserError for an unknown task, or where this machine cannot draw."""
        check(task)
        self.ready()
        from guidebench.suites.bin_sorting import drawing

        return drawing.drawer(self)


def _difficulty(start: str, steps: int, reason: str, **dataset: int) -> Mapping[str, Any]:
    """Return the words of a difficulty: where the arm begins, a budget (half of it offline), and the data."""
    return {
        "task": cite("sorting", reason),
        "profile": cite("quick", "states, narrow networks"),
        "suite.start": cite(start, reason),
        "training.steps": cite(steps, reason),
        "evaluation.every": cite(steps // 8, "choice: eight evaluations"),
        **cited("offline", reason, **dataset),
    }


@register.dataset("bin_sorting")
@dataclass(frozen=True)
class BinSortingData(DatasetPart):
    """Episodes of the suite's scripted policies: demonstrations of both directions, failures, and another task's.

    Their reward is the suite's true sparse one."""

    demonstrations: Annotated[int, Bounds(0), Unit("episodes of each direction")] = 20
    """Successful episodes of `forward`, and of `backward`; 10 and 4 for the settings with 2 and 5 times fewer (KAGI,
    §IV-B: 10 and 4 of the reduced settings, so 20; its text says 10 of the standard one)."""
    failures: Annotated[int, Bounds(0), Unit("episodes")] = 30
    """Episodes of the two directions in turn that fail in the ways `FAILURES` in turn, the same in all settings (KAGI,
    §IV-B)."""
    others: Annotated[int, Bounds(0), Unit("episodes")] = 200
    """Successful episodes of `other`, which stand for those of other pick-and-place tasks, the same in all settings
    (KAGI, §IV-B)."""
    tail: Annotated[int | None, Bounds(1), Unit("steps"), Later] = None
    """Steps of a successful episode after the first one from which it stays solved; null keeps an episode of full
    length (choice: null, as published; 60 % of its steps then follow success)."""
    grip: Annotated[float, Bounds(0.51, 1)] = 0.7
    """Size of the gripper's action, which opens or closes above .5. At 1 the mean of a policy with a tanh would have to
    be infinite, and a learner that once opens hardly learns to close (the policies of RoboFuME's simulator: .7)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("bin_sorting.bib")

    def __post_init__(self) -> None:
        check_settings(self, "dataset")

    def fits(self, view: CellView) -> str:
        """Return why it cannot be gathered for this suite, or ""."""
        return "" if isinstance(view.suite, BinSorting) else "it holds episodes of the suite bin_sorting alone"

    @property
    def count(self) -> int:
        return 2 * self.demonstrations + self.failures + self.others

    def gather(self, suite: Any, task: str) -> Sequence[Trajectory]:
        """Return demonstrations of `forward`, of `backward`, failures, and episodes of `other`, in this order."""
        from guidebench.suites.bin_sorting import offline

        return offline.gather(self, suite)


@register.suite("bin_sorting")
@dataclass(frozen=True)
class BinSorting(SuitePart):
    """Three coloured blocks, a tray and two bins; an instruction names a block and where it is to be."""

    observation: Literal["images", "state"] = "images"
    """`images`: of one camera or both, with the arm's own state. `state`: the arm's and the blocks' positions
    (KAGI, §IV-B; `state`: choice)."""
    cameras: Literal["side", "top", "both"] = "side"
    """Whose images an observation holds; no effect on `state` (choice: one, as published; the arm hides less of the
    table from the side)."""
    reset_free: bool = True
    """Whether the world of the task `sorting` stays between training episodes, while only the arm is homed; evaluation
    episodes always begin from a layout (RoboFuME's simulator, as published)."""
    rebuild: Annotated[int, Bounds(1), Unit("episodes")] = 125
    """Reset-free episodes after which the world is laid out anew (RoboFuME's simulator, as published)."""
    start: Literal["homed", "grasped"] = "homed"
    """`grasped`: an easier task, in which the scripted policy has lifted the named block before an episode begins
    (choice)."""
    displaced: Annotated[float, Bounds(0, 0.05), Unit("metres")] = 0.0
    """Largest distance along x and y by which each block is moved as an episode's first action begins, after what its
    first state shows: an imprecise reset (KAGI, §IV-E and table III, which says slight perturbations; 0: none)."""
    terminate: bool = False
    """Whether success ends an episode (choice: it does not, since a dense reward would then make it worth avoiding)."""
    length: Annotated[int, Bounds(1), Unit("environment steps")] = 40
    """Length of an episode (RoboFuME's simulator, as published)."""

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "mujoco"
    title: ClassVar[str] = "Bin sorting"
    source: ClassVar[str] = "KAGI, §IV-B; RoboFuME's simulator; arm and gripper of ogbench 1.2.2"
    citation: ClassVar[str | Path] = Path(__file__).with_name("bin_sorting.bib")
    tasks: ClassVar[tuple[str, ...]] = TASKS
    by_turns: ClassVar[tuple[str, ...]] = ("sorting", "other")
    views: ClassVar[tuple[str, ...]] = ("observation", "cameras")
    learner: ClassVar[str] = "sac"
    method: ClassVar[str] = "cal_ql"
    dataset: ClassVar[str] = "bin_sorting"
    events: ClassVar[tuple[str, ...]] = EVENTS
    drawing: ClassVar[type] = BinDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(30_000, "KAGI, §IV-C: online steps of its real robot; §IV-B names none"),
        "training.capacity": cite(50_000, "choice: training and offline data"),
        "training.demonstrations": cite(10, "KAGI, §IV-B: 10 of the forward task"),
        "evaluation.every": cite(2_000, "choice"),
        "evaluation.episodes": cite(20, "KAGI, §IV-A: 20 trials"),
        "judge.trained_classifier.tasks": cite(("forward", "backward"), "KAGI, §IV-B: demonstrations of both"),
    }
    judges: ClassVar[Mapping[str, str]] = {"paper": "transformers", "oracle": "oracle"}
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": ("sorting",)},
        "quick": {
            "tasks": ("sorting",),
            "suite.observation": cite("state", QUICK),
            "suite.start": cite("grasped", f"{QUICK}; the easier task"),
            "training.steps": cite(16_000, QUICK),
            "evaluation.every": cite(4_000, QUICK),
            "dataset.bin_sorting.demonstrations": cite(50, f"{QUICK}: cloning alone made .27 with the arm homed"),
            "dataset.bin_sorting.failures": cite(
                0, "quick profile: cloning, which cannot tell them apart, learns them"
            ),
            "dataset.bin_sorting.tail": cite(8, "quick profile: else 60 % of the data are idle; without, no release"),
            "learner.bc.hidden": cite((128, 128), QUICK),
            "learner.bc.batch_size": cite(64, QUICK),
            "learner.cal_ql.hidden": cite((128, 128), QUICK),
            "learner.cal_ql.batch_size": cite(64, QUICK),
            "learner.cal_ql.cql_actions": cite(4, QUICK),
            "learner.cal_ql.actor_lr": cite(1e-3, FEWER),
            "learner.cal_ql.critic_lr": cite(1e-3, FEWER),
            "learner.cal_ql.alpha_lr": cite(1e-3, FEWER),
            "learner.cal_ql.target_rate": cite(0.02, FEWER),
            "learner.cal_ql.alpha": cite(0.05, f"{FEWER}: from 1 the policy is uniform for thousands of steps"),
            "learner.cal_ql.discount": cite(
                0.97, f"{FEWER}: staying at the place is worth 33, not 100; at .9 freezing under waypoints pays"
            ),
            "learner.cal_ql.bc_weight": cite(4.0, f"{FEWER}: 30 at values of about 7 learnt with the arm homed"),
            "learner.cal_ql.layer_norm": cite(
                True, f"{FEWER}: 8 of 20 episodes after 8,000 offline steps, without 2 of 10 (γ = .9, raw observations)"
            ),
            "learner.cal_ql.cql_weight": cite(1.0, f"{FEWER}: with values of at most 33"),
            "learner.cal_ql.target_entropy_scale": cite(
                3.0, "quick profile: the scripted policies' actions are narrower than scale 1 lets a policy be"
            ),
            "learner.sac.hidden": cite((256, 256), QUICK),
            "learner.sac.ensemble": cite(2, QUICK),
            "learner.sac.utd": cite(1, QUICK),
            "learner.sac.actor_utd": cite(1, QUICK),
            "learner.sac.learning_starts": cite(500, QUICK),
        },
        "smoke": {
            "tasks": ("sorting",),
            "suite.observation": cite("state", SMOKE),
            "training.steps": cite(200, SMOKE),
            "training.capacity": cite(400, SMOKE),
            "training.demonstrations": cite(1, SMOKE),
            "evaluation.every": cite(100, SMOKE),
            "evaluation.episodes": cite(1, SMOKE),
            "learner.cal_ql.learning_starts": cite(32, SMOKE),
            "learner.sac.hidden": cite((16, 16), SMOKE),
            "learner.sac.ensemble": cite(2, SMOKE),
            "learner.sac.utd": cite(1, SMOKE),
            "learner.sac.actor_utd": cite(1, SMOKE),
            "learner.sac.learning_starts": cite(100, SMOKE),
            "learner.sac.batch_size": cite(16, SMOKE),
            **cited(
                "guide.preference",
                SMOKE,
                pretraining=120,
                every=32,
                queries=4,
                budget=8,
                hidden=(16, 16),
                batch_size=8,
                updates_after_reset=4,
            ),
        },
    }

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "grasped_10k": _difficulty(
            "grasped", 10_000,
            "`cal_ql` rose from .35 at 8k of 16k steps to .84 at 12k in measured/bin_sorting_base, at γ = .9",
            demonstrations=20, failures=30,
        ),
        "grasped_12k": _difficulty(
            "grasped", 12_000, "choice: longer than grasped_10k, since half of the steps are offline",
            demonstrations=20, failures=30,
        ),
        "grasped_few_12k": _difficulty(
            "grasped", 12_000, "KAGI, §IV-B: the smallest of its reduced settings", demonstrations=4, failures=30
        ),
        "homed_50_16k": _difficulty(
            "homed", 16_000, "the paper's start; cloning reached .27 without failures, .07 with them (three seeds)",
            demonstrations=50, failures=0,
        ),
        "homed_200_16k": _difficulty(
            "homed", 16_000, "the paper's start; cloning of 200 forward demonstrations alone reached 1",
            demonstrations=200, failures=0,
        ),
    }  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self, "suite")

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Actions: float32 [7], the gripper's motion along x, y and z (.1 m), its roll, pitch and yaw (.6 rad), and the
        gripper: it opens above .5, closes below -.5, and else does as before.

        Observations of `images`: a record of uint8 [100, 100, 3] for each camera, by its name; `proprioception` float32
        [7], the tip's position (from (.42, 0, .1) m, times 5), roll, pitch and yaw in radians, and whether the gripper
        is commanded to be closed; `goal` float32 [13], one-hot, of the colour (`words.COLOURS`) and the place
        (`words.PLACES`) that the instruction names. Of `state`: float32 [35], the same 7 numbers, how far the gripper
        is closed, the named block's position from the tip, sine and cosine of four times its yaw, the positions of all
        blocks, the named one first, and the goal."""
        check(task)
        goal = len(COLOURS) + len(PLACES)
        if self.observation == "state":
            return Observations((STATE,), "float32"), Actions(shape=(7,))
        images = {camera: Observations((SIDE, SIDE, 3), "uint8") for camera in CAMERAS_OF[self.cameras]}
        vectors = {"proprioception": Observations((ARM_NUMBERS,), "float32"), "goal": Observations((goal,), "float32")}
        return Observations(parts={**images, **vectors}), Actions(shape=(7,))

    def horizon(self, task: str) -> int:
        """Return the length of an episode."""
        check(task)
        return self.length

    def shortest(self, task: str) -> int:
        """Return the length of an episode, unless success ends it."""
        return 1 if self.terminate else self.horizon(task)

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets."""
        check(task)
        return 4e-3 + 5e-3 * (len(CAMERAS_OF[self.cameras]) if self.observation == "images" else 0)

    def in_evaluation(self) -> BinSorting:
        """Return the suite with episodes that begin from layouts, forward (KAGI, §IV-A)."""
        return replace(self, reset_free=False)

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, or where a package is missing."""
        from guidebench.suites.mujoco import gl, need

        check(task)
        need("ogbench", "suite bin_sorting")
        if self.observation == "images":
            need("OpenGL", "images of suite bin_sorting")
            gl.backend()

    def make(self, task: str) -> Task:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.bin_sorting.task import BinTask

        return BinTask(task, self)

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return the scripted policy's episode of layout `seed`, or None if it does not succeed."""
        from guidebench.harness.episodes.demonstrations import play

        made: Any = self.in_evaluation().make(task)
        return play(made, seed, lambda observation: made.expert())

    def failures(self, task: str) -> tuple[str, ...]:
        """Return the ways in which scripted policies fail (`capabilities.Fails`)."""
        check(task)
        return FAILURES

    def fail(self, task: str, seed: int, how: str) -> Demonstration | None:
        """Return an episode of layout `seed` in which a scripted policy fails in one of the ways `FAILURES`, or None if
        it succeeds by chance; UserError for another way."""
        from guidebench.harness.episodes.demonstrations import roll

        if how not in FAILURES:
            raise unknown("failure", how, FAILURES)
        made: Any = self.in_evaluation().make(task)
        episode = roll(made, seed, lambda observation: made.fail(how), made.max_steps)
        return None if episode.success.any() else episode

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first state in which the scripted policy has solved layout `seed`; None where it
        fails."""
        from guidebench.harness.episodes.demonstrations import first_success

        made: Any = replace(self.in_evaluation(), observation="state").make(task)
        return first_success(made, seed, lambda observation: made.expert())

    def cameras_of(self, task: str) -> tuple[str, ...]:
        """Return the names of the calibrated cameras, the one from above first."""
        check(task)
        return CALIBRATED

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        """Return the pixels (column, row), float [n, 2], of points [n, 3] of the world, in metres, in a camera's square
        frame of `size` pixels (`capabilities.Projects`); UserError for an unknown camera or other shapes."""
        from guidebench.suites.bin_sorting import cameras

        check(task)
        return cameras.project(camera, points, size)

    def tip(self, task: str, observations: Array) -> Array:
        """Return the gripper's tip in the world, metres, float64 [n, 3], by observations [n, …] of this suite."""
        check(task)
        arm_state = observations["proprioception"] if observations.dtype.names else observations
        return np.asarray(arm_state[..., :3], float) / SCALE + CENTRE

    def towards(self, task: str, observations: Array, places: Array, closed: Array) -> Array:
        """Return the actions that move the tip to places of the world, pointing down (`capabilities.Steers`)."""
        check(task)
        from guidebench.suites.bin_sorting import expert

        arm_state = observations["proprioception"] if observations.dtype.names else observations[..., :ARM_NUMBERS]
        tips, angles = self.tip(task, observations), np.array(arm_state[..., 3:6], float)
        angles[:, 2] = 0.0  # the yaw stays as it is
        actions = [
            expert.action(tip, turn, place, 0.0, -1.0 if grip else 1.0)
            for tip, turn, place, grip in zip(tips, angles, np.asarray(places, float), closed, strict=True)
        ]
        return np.array(actions, np.float32).reshape(-1, 7)

    def instruction_at(self, task: str, snapshot: Array) -> str:
        """Return the instruction of a snapshot's episode, which may be of any task of the suite
        (`capabilities.InstructsBySnapshot`)."""
        check(task)
        from guidebench.suites.bin_sorting.task import instructed

        return instructed(snapshot)

    def located(self, task: str, snapshot: Array) -> Array:
        """Return the position of the named block and the position at which the scripted policy would put it, metres,
        float64 [2, 3] (`capabilities.Locates`). Privileged."""
        check(task)
        from guidebench.suites.bin_sorting.task import located

        return located(snapshot)

    def calibrate(self, task: str, camera: str, size: int, frames: int = 60, seed: int = 0) -> Regressor:
        """Return a camera's regressor from points to pixels, fitted on drawn calibration frames, as an alternative to
        `project`; UserError for an unknown camera, and where too few frames agree."""
        from guidebench.suites.bin_sorting import calibration

        self.ready(task)
        return calibration.calibrate(camera, size, frames, seed)


@register.judge("scripted_classifier")
@dataclass(frozen=True)
class ScriptedClassifier(ModelPart):
    """Hand-written for bin_sorting: judges by pixels in both views whether the block of the prompt's colour lies in its
    place, and errs at the configured rates in addition to its own mistakes."""

    false_positive: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability of 1 for a frame in which it finds no success; the draw follows from frame and prompt (choice: no
    errors but its own)."""
    false_negative: Annotated[float, Bounds(0, 1), Unit("probability")] = 0.0
    """Probability of 0 for a frame in which it finds success; the draw follows from frame and prompt (choice: no errors
    but its own)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 40
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: an episode, so that training does not wait)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Time limit of one answer, after which the process is restarted (choice: ample; a frame takes milliseconds)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written: it reads the frames' colours"
    backend: ClassVar[str] = "scripted"
    suites: ClassVar[tuple[str, ...]] = ("bin_sorting",)
    title: ClassVar[str] = "hand-written for bin_sorting: the block's colour in its place"

    def fits(self, view: CellView) -> str:
        """Return why this judge cannot be used in the given cell, or ""."""
        if not isinstance(view.suite, BinSorting):
            return "it is hand-written for the suite bin_sorting"
        if not view.worded(self):
            return "it answers about single states, in the words of a dialogue; choose it as classifier=scripted"
        if view["drawing"].camera != "both":
            return "it reads two views side by side; set drawing.camera=both"
        return ""

    def spawn(self, suite: Any, task: str) -> ReadsPrompts:
        from guidebench.suites.bin_sorting.classifier import ColourClassifier

        return ColourClassifier(self)


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
