"""Bin sorting: an arm puts coloured blocks from a tray into the named bins, and back, without anyone resetting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.errors import unknown
from guidebench.harness.interfaces import Actions, Array, Drawer, Observations, Task
from guidebench.harness.parts import SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings, cite
from guidebench.suites.bin_sorting.words import COLOURS, PLACES
from guidebench.suites.mujoco.looks import Looks

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration
    from guidebench.suites.bin_sorting.calibration import Regressor

TASKS = ("sorting", "forward", "backward", "other")
EVENTS = ("lifted", "brought", "placed")
FAILURES = ("miss", "drop", "wrong place")
"""Ways in which a scripted policy fails: it closes beside the block, drops it beside the tray, brings it elsewhere."""
CAMERAS_OF: Mapping[str, tuple[str, ...]] = {"side": ("side",), "top": ("top",), "both": ("side", "top")}
SIDE = 100
"""Pixels along the side of an observed image."""
OWN = 7
"""Numbers of the arm's own state."""
STATE = OWN + 1 + 3 + 2 + 9 + len(COLOURS) + len(PLACES)
PUBLISHED = "RoboFuME's simulator, as published"
PAPER = "KAGI, §IV-B"
QUICK = "quick profile: a cell in minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


@dataclass(frozen=True)
class BinDrawing(Looks):
    """Frames for models; the world and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(32, 1024), Unit("pixels")] = 100
    """Side length of a frame (KAGI, §IV-B)."""
    camera: Literal["top", "side"] = "side"
    """`top` looks straight down; `side` faces the arm from across the table (KAGI, §III: a top-down and a side
    image)."""
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
    terminate: bool = False
    """Whether success ends an episode (choice: it does not, since a dense reward would then make it worth avoiding)."""
    length: Annotated[int, Bounds(1), Unit("environment steps")] = 40
    """Length of an episode (RoboFuME's simulator, as published)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "Bin sorting"
    source: ClassVar[str] = "KAGI, §IV-B; RoboFuME's simulator; arm and gripper of ogbench 1.2.2"
    citation: ClassVar[str | Path] = Path(__file__).with_name("bin_sorting.bib")
    tasks: ClassVar[tuple[str, ...]] = TASKS
    by_turns: ClassVar[tuple[str, ...]] = ("sorting", "other")
    views: ClassVar[tuple[str, ...]] = ("observation", "cameras")
    learner: ClassVar[str] = "sac"
    method: ClassVar[str] = "uer"
    events: ClassVar[tuple[str, ...]] = EVENTS
    drawing: ClassVar[type] = BinDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(30_000, "KAGI, §IV-C: online steps of its real robot; §IV-B names none"),
        "training.capacity": cite(50_000, "choice: training and offline data"),
        "training.demonstrations": cite(10, "KAGI, §IV-B: 10 of the forward task"),
        "evaluation.every": cite(2_000, "choice"),
        "evaluation.episodes": cite(20, "KAGI, §IV-A: 20 trials"),
    }
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tasks": ("sorting",), "judge": "transformers"},
        "quick": {
            "judge": "oracle",
            "tasks": ("sorting",),
            "suite.observation": cite("state", QUICK),
            "suite.start": cite("grasped", f"{QUICK}; the easier task"),
            "training.steps": cite(20_000, QUICK),
            "evaluation.every": cite(2_000, QUICK),
            "learner.sac.hidden": cite((256, 256), QUICK),
            "learner.sac.ensemble": cite(2, QUICK),
            "learner.sac.utd": cite(1, QUICK),
            "learner.sac.actor_utd": cite(1, QUICK),
            "learner.sac.learning_starts": cite(500, QUICK),
        },
        "smoke": {
            "judge": "oracle",
            "tasks": ("sorting",),
            "suite.observation": cite("state", SMOKE),
            "training.steps": cite(200, SMOKE),
            "training.capacity": cite(400, SMOKE),
            "training.demonstrations": cite(1, SMOKE),
            "evaluation.every": cite(100, SMOKE),
            "evaluation.episodes": cite(1, SMOKE),
            "learner.sac.hidden": cite((16, 16), SMOKE),
            "learner.sac.ensemble": cite(2, SMOKE),
            "learner.sac.utd": cite(1, SMOKE),
            "learner.sac.actor_utd": cite(1, SMOKE),
            "learner.sac.learning_starts": cite(100, SMOKE),
            "learner.sac.batch_size": cite(16, SMOKE),
        },
    }

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
        seen = {camera: Observations((SIDE, SIDE, 3), "uint8") for camera in CAMERAS_OF[self.cameras]}
        own = {"proprioception": Observations((OWN,), "float32"), "goal": Observations((goal,), "float32")}
        return Observations(parts={**seen, **own}), Actions(shape=(7,))

    def horizon(self, task: str) -> int:
        """Return the length of an episode."""
        check(task)
        return self.length

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
        """Return the names of the calibrated cameras."""
        check(task)
        return CAMERAS_OF["both"]

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        """Return the pixels (column, row), float [n, 2], of points [n, 3] of the world, in metres, in a camera's square
        frame of `size` pixels (`capabilities.Projects`); UserError for an unknown camera or other shapes."""
        from guidebench.suites.bin_sorting import cameras

        check(task)
        return cameras.project(camera, points, size)

    def calibrate(self, task: str, camera: str, size: int, frames: int = 60, seed: int = 0) -> Regressor:
        """Return a camera's regressor from points to pixels, fitted on drawn calibration frames, as an alternative to
        `project`; UserError for an unknown camera, and where too few frames agree."""
        from guidebench.suites.bin_sorting import calibration

        self.ready(task)
        return calibration.calibrate(camera, size, frames, seed)


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
