"""Gymnasium-Robotics' point maze: a ball is pushed through a maze to a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.errors import unknown
from guidebench.harness.interfaces import Actions, Array, Coordinates, Drawer, Observations, Surroundings, Task
from guidebench.harness.parts import SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite, cited
from guidebench.suites.mujoco.looks import Looks

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration

Reward = Literal["dense", "sparse"]
HORIZON = {"open": 300, "umaze": 300, "medium": 600}
"""Episode length in the package's registry, in environment steps."""
REACH = {
    "open": ((-2.5, 2.5), (-1.5, 1.5)),
    "umaze": ((-1.5, 1.5), (-1.5, 1.5)),
    "medium": ((-3.0, 3.0), (-3.0, 3.0)),
}
"""Task -> smallest and largest x and y in metres between the outer walls (the package's maps)."""
GRIDS = {
    "open": ("1111111", "1000001", "1000001", "1000001", "1111111"),
    "umaze": ("11111", "10001", "11101", "10001", "11111"),
    "medium": (
        "11111111", "10011001", "10010001", "11000111", "10010001", "10100101", "10001001", "11111111",
    ),
}  # fmt: skip
"""The package's maps, from the top row down; 1 is a wall cell."""
SURROUNDINGS = """\
The ball moves in a maze of square cells, each 1 m wide. Seen from above, with 1 for a cell of wall and 0 for a free \
one, the maze is
{grid}
The origin is the middle of this map; x grows to the right and y upwards, so the middle of the top left cell is at \
({left:g}, {top:g}). The ball cannot pass through walls and should not run into any. So judge how far it is from the \
target along a way around the walls, which may lead away from the target at first."""
AROUND = "It is planned around the walls of the map: it passes through none, touches none, and cuts no corner."
BALL, TARGET = (0, 1), (4, 5)
"""Observation entries of the ball's position and of the target's position."""
SAC, PREFERENCE = "learner.sac", "guide.preference"
TABLE = "RL-SaLLM-F, table 2"
CODE = "RL-SaLLM-F, released code, for MetaWorld"
MAZE_CODE = "RL-SaLLM-F, released code, for the mazes"
BPREF = "B-Pref's code, agent/actor.py and utils.py, of which RL-SaLLM-F's is a copy"
QUICK = "quick profile: a cell in minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


@dataclass(frozen=True)
class MazeDrawing(Looks):
    """Frames for models; the maze and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(32, 1024), Unit("pixels")] = 224
    """Side length of a frame (choice: the input size of common CLIP models; the package's own default is 480)."""

    suite: ClassVar[str] = "point_maze"
    package: ClassVar[str] = "gymnasium_robotics"

    def spawn(self, task: str) -> Drawer:
        """Return the drawer; UserError for an unknown task, or where this machine cannot draw."""
        check(task)
        self.ready()
        from guidebench.suites.point_maze.drawing import drawer

        return drawer(task, self.size, self.quality == "full")


def _difficulty(task: str, steps: int, length: int, reason: str) -> Mapping[str, Any]:
    """Return the words of a difficulty: a maze, a budget and the length of an episode."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "fewer queries"),
        "suite.steps": cite(length, "choice: long enough for the scripted solver, too short for random actions"),
        "training.steps": cite(steps, reason),
        "training.capacity": cite(steps, "choice: all of a run"),
        "evaluation.every": cite(steps // 10, "choice: ten evaluations"),
        "evaluation.episodes": cite(20, "the suite's own number"),
        **cited(SAC, "choice: narrow, for speed on one core", hidden=(128, 128), batch_size=128),
        **cited(PREFERENCE, "choice: shares of the budget", pretraining=steps // 20, every=steps // 20,
                budget=steps // 40, hidden=(128, 128)),
    }  # fmt: skip


@register.suite("point_maze")
@dataclass(frozen=True)
class PointMaze(SuitePart):
    """Three point mazes; each episode has its own start and target."""

    reward: Reward = "dense"
    """The package's reward: `dense`, exp(-distance to the target), or `sparse`, 1 within .45 m of the target and
    otherwise 0 (RL-SaLLM-F, table 5, has SAC with either)."""
    steps: Annotated[int | None, Bounds(1), Unit("environment steps")] = 100
    """Length of every episode; null uses the package's lengths, 300 and in `medium` 600 (RL-SaLLM-F's code,
    max_episode_steps)."""
    success: Literal["any", "last"] = "any"
    """Whether an episode succeeds if the ball is within .45 m of the target at any step, or only at the last one
    (RL-SaLLM-F's code; the paper does not state it)."""

    version: ClassVar[int] = 2
    extra: ClassVar[str] = "mujoco"
    title: ClassVar[str] = "Point Maze"
    source: ClassVar[str] = "RL-SaLLM-F, app. B.6; gymnasium-robotics 1.4.2, PointMaze_*-v3"
    citation: ClassVar[str | Path] = Path(__file__).with_name("point_maze.bib")
    tasks: ClassVar[tuple[str, ...]] = tuple(HORIZON)
    learner: ClassVar[str] = "sac"
    method: ClassVar[str] = "sac"
    events: ClassVar[tuple[str, ...]] = ("success",)
    drawing: ClassVar[type] = MazeDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(500_000, TABLE),
        "training.capacity": cite(500_000, "choice: the whole run"),
        "evaluation.every": cite(10_000, "choice; fifty evaluations"),
        "evaluation.episodes": cite(20, "choice: a success rate in steps of 5 %; starts and targets vary widely"),
        **cited(SAC, TABLE, hidden=(256, 256, 256), batch_size=512, actor_lr=3e-4, critic_lr=3e-4, discount=0.99,
                target_rate=0.005, alpha=0.1, target_frequency=2),
        **cited(SAC, CODE, alpha_lr=1e-4, target_entropy_scale=1.0, learning_starts=1_000, ensemble=2,
                subset=2, target_reduction="min", actor_reduction="min", layer_norm=False, max_grad_norm=None, utd=1,
                actor_utd=1),
        **cited(SAC, BPREF, log_std="tanh", log_std_min=-5.0, initialisation="orthogonal"),
        **cited(PREFERENCE, MAZE_CODE, sees="coordinates"),
    }  # fmt: skip
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "quick": {
            "tasks": ("umaze",),
            "training.steps": cite(50_000, QUICK),
            "training.capacity": cite(50_000, QUICK),
            "evaluation.every": cite(2_500, QUICK),
            "evaluation.episodes": cite(16, QUICK),
            **cited(SAC, QUICK, hidden=(256, 256), batch_size=256),
            **cited(PREFERENCE, QUICK, pretraining=2_500, every=1_000, budget=500),
        },
        "smoke": {
            "tasks": ("umaze",),
            "training.steps": cite(600, SMOKE),
            "training.capacity": cite(600, SMOKE),
            "evaluation.every": cite(200, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
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

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "open_5k": _difficulty("open", 5_000, 100, "choice: no walls between ball and target"),
        "open_20k": _difficulty("open", 20_000, 100, "choice: the same for longer"),
        "umaze_20k": _difficulty("umaze", 20_000, 150, "choice: one wall to go around"),
        "umaze_40k": _difficulty("umaze", 40_000, 150, "choice: the same for longer"),
        "medium_40k": {
            **_difficulty("medium", 40_000, 200, "choice: several walls to go around"),
            "suite.success": cite("last", "choice: random actions pass the target in an eighth of the episodes"),
        },
    }

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: float32 [6], the ball's position x, y in m and velocity in m/s, then the target's x, y.
        Actions: float32 [2], the force along x and y, where 1 is 100 N."""
        check(task)
        return Observations((6,), "float32"), Actions(shape=(2,))

    def horizon(self, task: str) -> int:
        """Return `suite.steps`, or the length in the package's registry: 300, and 600 in the medium maze."""
        check(task)
        return self.steps or HORIZON[task]

    def shortest(self, task: str) -> int:
        """Return the length of every episode: reaching the target ends none."""
        return self.horizon(task)

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, including resets."""
        check(task)
        return 3.2e-5

    def make(self, task: str) -> Task:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.point_maze.task import Maze

        return Maze(task, self)

    def surroundings(self, task: str) -> Surroundings:
        """Return the maze's walls as a map, and the demand to plan trajectories around them (RL-SaLLM-F's code, in our
        words)."""
        check(task)
        rows = GRIDS[task]
        grid = "\n".join(f"[{', '.join(row)}]" for row in rows)
        left_x, top_y = (1 - len(rows[0])) / 2, (len(rows) - 1) / 2
        return Surroundings(SURROUNDINGS.format(grid=grid, left=left_x, top=top_y), AROUND)

    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        """Return ball and target, in the plane."""
        check(task)
        return (
            Coordinates("ball", "position (x, y) of the ball in the maze, in metres", BALL, reach=REACH[task]),
            Coordinates("target", "position (x, y) that the ball has to reach, in metres", TARGET, constant=True),
        )

    def rewards(self, task: str, observations: Array) -> Array:
        """Return the package's reward, float64 [n], for arriving at observations [n, 6]."""
        check(task)
        from guidebench.suites.point_maze.task import reward

        return reward(self.reward, observations[:, BALL], observations[:, TARGET])

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return an episode of layout `seed` by the task's scripted solver; None if it does not end at the target."""
        self.ready(task)
        from guidebench.harness.episodes.demonstrations import play
        from guidebench.suites.point_maze.task import Maze

        solved = Maze(task, self)
        return play(solved, seed, lambda observation: solved.expert())

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first state in which the task's scripted solver is at the target, in the episode
        of layout `seed`; None where it does not get there."""
        self.ready(task)
        from guidebench.harness.episodes.demonstrations import first_success
        from guidebench.suites.point_maze.task import Maze

        solved = Maze(task, self)
        return first_success(solved, seed, lambda observation: solved.expert())

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, or where the package is missing."""
        from guidebench.suites.mujoco import need

        check(task)
        need("gymnasium_robotics", "suite point_maze")


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in HORIZON:
        raise unknown("task", task, HORIZON)
