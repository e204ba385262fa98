"""DSADF's tasks 11 to 13 on Housekeep: a room with misplaced items, seen as symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness.errors import UserError, unknown
from guidebench.harness.findings import Finding
from guidebench.harness.interfaces import Actions, Array, Drawer, Observations, Score
from guidebench.harness.parts import DrawingPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Transport, Unit, check_settings, cite, cited
from guidebench.suites.housekeep.items import ALIASES, MOST, OBJECTS, TASKS

if TYPE_CHECKING:
    from guidebench.harness.capabilities import Forms
    from guidebench.harness.trajectories import Demonstration
    from guidebench.suites.housekeep.preferences import Preferences
    from guidebench.suites.housekeep.task import HousekeepTask

ACTIONS = ("move forward", "turn left", "turn right", "look up", "look down", "grab or release")
RECEPTACLES = 16
"""Receptacles that an observation has room for: those of a kitchen in Housekeep's annotations."""
NUMBERS = 5
"""Numbers of each thing in an observation."""
LONGEST_TEXT = 2048
TABLE = "ours-be8d2b2f99120f96e5e180e513a1a598"
"""Name of `preferences.csv`, with the hash of its content."""
DSADF, HOUSEKEEP = "DSADF, §5.4", "Housekeep (Kant et al. 2022), released code"
ELLM = "ELLM (Du et al. 2023), released code, configuration of Housekeep"
QUICK = "quick profile: a cell in minutes on two cores"
SMOKE = "smoke profile: seconds, for tests; learns nothing"


def _difficulty(
    task: str, reason: str, *, items: int, length: int, steps: int, holding: bool, layouts: int = 1
) -> Mapping[str, Any]:
    """Return the words of a difficulty: a few layouts without distractors, some of a task's items, and a budget."""
    return {
        "task": cite(task, reason),
        "profile": cite("quick", "one layout, and a reward for each item"),
        "suite.items": cite(items, reason),
        "suite.start": cite("holding" if holding else "empty", reason),
        "suite.layouts": cite(layouts, reason),
        "suite.distractors": cite(0, "choice: nothing else to grab"),
        "suite.length": cite(length, reason),
        "training.steps": cite(steps, reason),
        "training.capacity": cite(steps, "choice: all of a run"),
        "evaluation.every": cite(steps // 10, "choice: ten evaluations"),
        "evaluation.episodes": cite(
            5 * (layouts - 1) + 1, "all episodes of a greedy policy are equal in one layout; five each beyond the first"
        ),
    }


@dataclass(frozen=True)
class HousekeepDrawing(DrawingPart):
    """Pictures for models; the room and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(16, 1024), Unit("pixels")] = 128
    """Side length of a picture (Housekeep: 128 pixels)."""
    view: Literal["agent", "above"] = "agent"
    """What the agent's camera sees, or a map of the room from above, which also shows what lies in closed furniture
    (choice)."""
    labels: bool = True
    """Whether names are written on what is in view, in pictures of 256 pixels and more; boxes alone do not show what
    they are (choice)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: each kind in its colour. `sprite_swap`: in the colour and with the name of another. `texture`:
    meaningless noise without names (VLM-RB, §4.2 and app. F.3, for DoorKey)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    def spawn(self, task: str) -> Drawer:
        """Return the task's drawer; UserError for an unknown task."""
        from guidebench.suites.housekeep.drawing import HousekeepDrawer
        from guidebench.suites.housekeep.perturbations import swapped, textured

        check(task)
        looks = {"none": None, "sprite_swap": swapped(), "texture": textured(self.seed)}[self.perturbation]
        return HousekeepDrawer(self.size, self.view, self.labels, looks)


NO_ADAPTER = (
    "not used: it is published for conda alone and its maintenance has ended, so suite=housekeep has no adapter for it "
    "and is a symbolic room of its own"
)


@register.suite("housekeep")
@dataclass(frozen=True)
class Housekeep(SuitePart):
    """Three tasks that put misplaced items of one room where they belong."""

    observation: Literal["symbols", "text"] = "symbols"
    """What an observation holds. `symbols`: numbers of what is in view, what is held, heading and pitch. `text`: these
    and sentences (choice)."""
    room: str = "kitchen"
    """The room, whose receptacles are those of the table of preferences (choice: most items are a kitchen's; DSADF
    says one room)."""
    layouts: Annotated[int | None, Bounds(1)] = 20
    """Number of layouts (floor plan, start places, start of the agent), from which every reset draws one, in training
    and in evaluation; null: a new one for every reset (DSADF, §5.4: rooms are familiar; their number: choice)."""
    distractors: Annotated[int, Bounds(0, len(OBJECTS) - MOST), Unit("objects")] = 4
    """Other objects, which lie where they belong (choice)."""
    items: Annotated[int | None, Bounds(1, MOST), Unit("objects"), Later] = None
    """How many of the task's items there are, the first of its list; null: all of them, as in the paper (choice)."""
    start: Annotated[Literal["empty", "holding"], Later] = "empty"
    """What the agent holds as an episode begins: nothing, or the first item, which makes it an easier task (choice)."""
    reward: Literal["success", "placed"] = "success"
    """`success`: 1 once all items are placed. `placed`: the change of the share of items placed (DSADF, table 10,
    sparse reward; `placed`: choice)."""
    length: Annotated[int, Bounds(1), Unit("environment steps")] = 1_000
    """Longest episode (Housekeep's configuration)."""
    table: str = TABLE
    """Name of the table of preferences, with the hash of its content: results with different tables are never compared
    (choice; the default is this project's own table)."""
    preferences: Annotated[str | None, Transport] = None
    """File of another table, CSV or Parquet, whose name is `table` (Housekeep's annotations, converted)."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "Housekeep, three tasks"
    source: ClassVar[str] = "DSADF, §5.4 and app. A.1.1; Housekeep (Kant et al. 2022)"
    citation: ClassVar[str | Path] = Path(__file__).with_name("housekeep.bib")
    tasks: ClassVar[tuple[str, ...]] = tuple(TASKS)
    aliases: ClassVar[Mapping[str, str]] = ALIASES
    learner: ClassVar[str] = "dueling_dqn"
    method: ClassVar[str] = "sparse"
    views: ClassVar[tuple[str, ...]] = ("observation",)
    scores: ClassVar[Mapping[str, Score]] = {task: Score("object success", low=0.0, high=1.0) for task in TASKS}
    events: ClassVar[tuple[str, ...]] = tuple(
        f"item {number} {stage}"
        for number in range(1, MOST + 1)
        for stage in ("found", "grabbed", "receptacle found", "released")
    )
    ordered: ClassVar[bool] = False
    drawing: ClassVar[type] = HousekeepDrawing
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.steps": cite(4_000_000, ELLM),
        "training.capacity": cite(500_000, "choice: .5 GB"),
        "evaluation.every": cite(200_000, "choice; twenty evaluations"),
        "evaluation.episodes": cite(100, f"{DSADF}: 100 trials of each task"),
        **cited("learner.dueling_dqn", ELLM, batch_size=256, epsilon_end=0.1),
        **cited("learner.dueling_dqn", "choice: ELLM's 5M steps are more than its 4M of training",
                exploration_share=1.0),
        **cited("learner.dqn", ELLM, lr=6.25e-5, batch_size=256, discount=0.99, target_every=8_000, target_rate=1.0,
                learning_starts=5_000, train_every=4, epsilon_start=1.0, epsilon_end=0.1, double=True, hidden=(512,)),
        **cited("learner.dqn", "choice: a bound that rarely acts; ELLM's code clips no gradient", max_grad_norm=10.0),
    }  # fmt: skip
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "quick": {
            "tasks": ("adjustment_2",),
            "suite.reward": cite("placed", f"{QUICK}; success alone is never met at random"),
            "suite.layouts": cite(1, f"{QUICK}; one layout"),
            "suite.length": cite(300, QUICK),
            "training.steps": cite(200_000, QUICK),
            "training.capacity": cite(200_000, QUICK),
            "evaluation.every": cite(20_000, QUICK),
            "evaluation.episodes": cite(10, QUICK),
            **cited("learner.dueling_dqn", QUICK, lr=3e-4, batch_size=64, trunk=(128,), hidden=(128,),
                    target_every=1_000, learning_starts=1_000, epsilon_end=0.05, exploration_share=0.5),
            **cited("learner.dqn", QUICK, lr=3e-4, batch_size=64, hidden=(128, 128), target_every=1_000,
                    learning_starts=1_000, epsilon_end=0.05),
        },
        "smoke": {
            "tasks": ("adjustment_2",),
            "suite.reward": cite("placed", SMOKE),
            "suite.length": cite(60, SMOKE),
            "training.steps": cite(300, SMOKE),
            "training.capacity": cite(300, SMOKE),
            "evaluation.every": cite(150, SMOKE),
            "evaluation.episodes": cite(2, SMOKE),
            **cited("learner.dueling_dqn", SMOKE, trunk=(16,), hidden=(16,), batch_size=32, learning_starts=128,
                    train_every=16, target_every=64),
            **cited("learner.dqn", SMOKE, hidden=(16,), batch_size=32, learning_starts=128, train_every=16),
        },
    }  # fmt: skip

    difficulties: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "holding_4k": _difficulty(
            "adjustment_2", "one item, in the hand, six steps from its place: `sparse` did it from 3k steps on",
            items=1, length=30, steps=4_000, holding=True,
        ),
        "holding_far_20k": _difficulty(
            "adjustment_1", "choice: one item, in the hand, fifteen steps away from its place",
            items=1, length=60, steps=20_000, holding=True,
        ),
        "holding_one_of_two_20k": _difficulty(
            "adjustment_2", "two items, one in the hand: `sparse` placed one from 10k steps on (two seeds)",
            items=2, length=100, steps=20_000, holding=True,
        ),
        "holding_four_layouts_40k": _difficulty(
            "adjustment_2", "one item, in the hand, four layouts: `sparse` was at 0 to .5 in 20k steps (two seeds)",
            items=1, length=60, steps=40_000, holding=True, layouts=4,
        ),
        "holding_one_of_three_40k": _difficulty(
            "adjustment_2", "three items, one in the hand: `sparse` placed one from 20k steps on (two seeds)",
            items=3, length=150, steps=40_000, holding=True,
        ),
        "one_item_40k": _difficulty(
            "adjustment_3", "choice: one item, to be found, grabbed and placed", items=1, length=100, steps=40_000,
            holding=False,
        ),
        "five_items_40k": _difficulty(
            "adjustment_2", "`sparse` ended at .13 in measured/housekeep_dsadf",
            items=5, length=300, steps=40_000, holding=False,
        ),
    }  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self, "suite")

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Observations: a record of `objects` float32 [120] and `receptacles` float32 [80], for each thing five
        numbers: in view (1), distance in metres, sine and cosine of its direction from the gaze (left is positive), and
        elevation in radians, or zeros out of view; `places` uint8 [24], of each object in view 1 + the receptacle that
        it lies on; `held` uint8 [1], 1 + the object in the hand; `pose` float32 [3], sine and cosine of the heading,
        and pitch in radians; and for the kind `text` also `text` uint8 [2048], UTF-8, filled up with zeros. Objects are
        in the order of `guidebench.suites.housekeep.items.OBJECTS`, receptacles in that of their names, in all tasks.

        Actions: MOVE_FORWARD .25 m, TURN_LEFT and TURN_RIGHT 20 degrees, LOOK_UP and LOOK_DOWN 10 degrees,
        GRAB_RELEASE."""
        check(task)
        size = len(OBJECTS)
        text = {"text": Observations((LONGEST_TEXT,), "uint8")} if self.observation == "text" else {}
        observations = Observations(
            parts={
                "objects": Observations((size * NUMBERS,), "float32"),
                "receptacles": Observations((RECEPTACLES * NUMBERS,), "float32"),
                "places": Observations((size,), "uint8", categories=(1 + RECEPTACLES,) * size),
                "held": Observations((1,), "uint8", categories=(1 + size,)),
                "pose": Observations((3,), "float32"),
                **text,
            }
        )
        return observations, Actions(count=len(ACTIONS))

    def action_names(self, task: str) -> tuple[str, ...]:
        """Return the names of the six actions."""
        check(task)
        return ACTIONS

    def deed_forms(self, task: str) -> Forms:
        """Return the two kinds of deeds; things and receptacles are named as in sentences."""
        from guidebench.suites.housekeep.deeds import forms

        check(task)
        return forms(self.preferences_table().receptacles(self.room))

    def deeds(self, task: str) -> tuple[str, ...]:
        """Return the captions: to grab each object, and to put it on each receptacle of the room."""
        from guidebench.suites.housekeep.deeds import names

        check(task)
        return names(self.preferences_table().receptacles(self.room))

    def doable(self, task: str, observation: Array) -> Sequence[Mapping[str, int]]:
        """Return the deed that GRAB_RELEASE would do now, for each of the observations [n], by their numbers
        (`guidebench.suites.housekeep.deeds.doable`)."""
        from guidebench.suites.housekeep.deeds import doable

        check(task)
        return doable(observation, self.preferences_table().receptacles(self.room))

    def horizon(self, task: str) -> int:
        """Return `suite.length`."""
        check(task)
        return self.length

    def seconds_per_step(self, task: str) -> float:
        """Return the measured seconds of an environment step, with the share of a reset in short episodes."""
        check(task)
        return 1.2e-4 if self.observation == "text" else 5e-5

    def preferences_table(self) -> Preferences:
        """Return the table of preferences; UserError where its content is not that of `table`."""
        from guidebench.suites.housekeep.preferences import ours, read

        table = ours() if self.preferences is None else read(Path(self.preferences).expanduser())
        if table.name == self.table:
            return table
        if self.preferences is None:
            raise UserError(
                f"suite.table={self.table} names a table that is not this project's own ({table.name}): name its file "
                f"with suite.preferences=…"
            )
        raise UserError(
            f"suite.preferences={self.preferences} holds the table {table.name}, and suite.table={self.table} names "
            f"another: set suite.table={table.name}, so that its results are kept apart from those of other tables"
        )

    def ready(self, task: str) -> None:
        """Raise UserError for an unknown task, and for a table of preferences that does not fit it."""
        check(task)
        from guidebench.suites.housekeep.floors import floor
        from guidebench.suites.housekeep.layouts import rules

        floor(rules(task, self.room, self.preferences_table(), self.distractors, self.items).receptacles, 0)

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        """Return why Housekeep's own simulator is not used."""
        return (Finding("habitat-sim", None, NO_ADAPTER),)

    def make(self, task: str) -> HousekeepTask:
        """Return the task; errors as in `ready`."""
        self.ready(task)
        from guidebench.suites.housekeep.task import HousekeepTask

        return HousekeepTask(task, self)

    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return the scripted agent's episode that begins with `reset(seed)`; None if it does not place all items."""
        from guidebench.harness.episodes.demonstrations import play

        solved = self.make(task)
        return play(solved, seed, lambda observation: solved.expert())

    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot of the first state in which the scripted agent has placed all items in the episode that
        begins with `reset(seed)`; None if it does not."""
        from guidebench.harness.episodes.demonstrations import first_success

        solved = self.make(task)
        return first_success(solved, seed, lambda observation: solved.expert())


def check(task: str) -> None:
    """Raise UserError for an unknown task."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
