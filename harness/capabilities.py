"""Optional capabilities of suites and tasks, one small Protocol each.

`isinstance(suite, HasCoordinates)` tests for a capability, and narrows the type for a type checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from guidebench.harness.interfaces import Array, Coordinates, Surroundings

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration


# Capabilities of suites


@runtime_checkable
class Demonstrates(Protocol):
    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return an episode of the suite's solver that begins with `reset(seed)`
        (`harness.episodes.demonstrations.play`), or None where the solver never succeeds."""


@runtime_checkable
class Fails(Protocol):
    """A suite with scripted policies that fail."""

    def failures(self, task: str) -> tuple[str, ...]:
        """Return the names of the ways in which the scripted policies of a task fail."""

    def fail(self, task: str, seed: int, how: str) -> Demonstration | None:
        """Return an episode that begins with `reset(seed)` and fails in the way `how` (of `failures`), or None if the
        policy succeeds by chance."""


def demonstrates(suite: object, task: str) -> bool:
    """Return whether the suite has a solver for a task; a task without a goal (`SuitePart.goalless`) has none."""
    return isinstance(suite, Demonstrates) and task not in getattr(suite, "goalless", ())


@runtime_checkable
class HasGoal(Protocol):
    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot, uint8 [n], of the first state in which the suite's own solver succeeds in the episode
        that begins with `reset(seed)` (`harness.episodes.demonstrations.first_success`), or None where it never does.
        Repeated calls return the same bytes. A goal image tells a method more than the rewards do, so the page of a
        method that shows one to a model says so."""


def shows_goal(suite: object, task: str) -> bool:
    """Return whether the suite can show the goal of a task; a task without one (`SuitePart.goalless`) has none to
    show."""
    return isinstance(suite, HasGoal) and task not in getattr(suite, "goalless", ())


@runtime_checkable
class HasCoordinates(Protocol):
    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        """Return the objects whose positions the task's observations hold, described in words."""


def coordinates(suite: object, task: str) -> tuple[Coordinates, ...]:
    """Return the objects whose positions a task's observations hold; () if the suite does not describe them."""
    return suite.coordinates(task) if isinstance(suite, HasCoordinates) else ()


@runtime_checkable
class Projects(Protocol):
    """A suite whose cameras stand still, so that points of the world have known pixels."""

    def cameras_of(self, task: str) -> tuple[str, ...]:
        """Return the names of the calibrated cameras, values of the setting `drawing.camera`: first the one that looks
        down from above, then the one from the side. With `drawing.camera=both`, frames are uint8 [L, size, 2 size, 3],
        the view from above on the left and that from the side on the right."""

    def project(self, task: str, camera: str, points: Array, size: int) -> Array:
        """Return the pixels (column, row), float [n, 2], of points [n, 3] of the world, in metres, in a camera's square
        frame of `size` pixels. The frame's upper left corner is (0, 0), the centre of its first pixel (.5, .5). Points
        out of view have pixels outside [0, size]; NaN for those behind the camera."""

    def tip(self, task: str, observations: Array) -> Array:
        """Return the world position of the point between the gripper's fingers, metres, float64 [n, 3], computed from
        the suite's observations [n, …]."""


@runtime_checkable
class Steers(Protocol):
    """A suite whose actions move a gripper."""

    def towards(self, task: str, observations: Array, places: Array, closed: Array) -> Array:
        """Return the actions [n, …] that move the gripper's tip as far as one step can towards `places`, world
        positions [n, 3] in metres, given the observations [n, …]. `closed`, bool [n]: whether the gripper is to
        close."""


@runtime_checkable
class Calibrates(Protocol):
    """A suite that fits regressors on calibration frames, as an alternative to `Projects.project`."""

    def calibrate(self, task: str, camera: str, size: int) -> Callable[[Array], Array]:
        """Return the regressor of a camera: world points [n, 3] in metres -> pixels (column, row), float [n, 2]. Raise
        UserError if too few calibration frames agree."""


@runtime_checkable
class InstructsBySnapshot(Protocol):
    """A suite whose instruction changes from episode to episode; elsewhere it is `suite.make(task).instruction`."""

    def instruction_at(self, task: str, snapshot: Array) -> str:
        """Return the instruction of the episode from which the snapshot, uint8 [n], was taken."""


@runtime_checkable
class PlansByGoal(Protocol):
    """A suite that knows the sub-goals of tasks whose goal changes from episode to episode."""

    def subgoals_by_goal(self, task: str) -> Mapping[str, Sequence[str]]:
        """Return instruction -> numbered names of its sub-goals in order, for each goal that episodes can have."""


INSTRUCTION = "instruction"
"""Name of the part of an observation that holds the vector of the present goal, where a policy has several."""


@runtime_checkable
class InstructsByObservation(Protocol):
    """A suite whose observations show which goal an episode has, on tasks whose goal changes."""

    def instructions_at(self, task: str, observation: Array) -> Sequence[str]:
        """Return the instruction of the episode of each of the observations [n, …]."""


@runtime_checkable
class Locates(Protocol):
    def located(self, task: str, snapshot: Array) -> Array:
        """Return the position of the object that the task moves and that of its goal, metres, float64 [2, 3], in the
        state of a snapshot, uint8 [n]. Raise UserError for a task without them. Privileged: for oracles only."""


@runtime_checkable
class HasSurroundings(Protocol):
    def surroundings(self, task: str) -> Surroundings:
        """Describe the surroundings that coordinates do not cover, such as walls."""


@runtime_checkable
class HasRewards(Protocol):
    def rewards(self, task: str, observations: Array) -> Array:
        """Return the task reward of observations [n, D], float [n], as far as observations determine it. Privileged:
        for diagnostics only."""


@runtime_checkable
class HasMeasures(Protocol):
    def measures(self, task: str) -> Mapping[str, str]:
        """Return name -> meaning, with its unit, of the P numbers that the task's `measures()` holds, in order.
        Privileged: for oracles only."""


@runtime_checkable
class NamesActions(Protocol):
    def action_names(self, task: str) -> tuple[str, ...]:
        """Return the name of each discrete action in words, in order, such as `chop tree`: the names that a prompt
        lists and a model answers with. No two are equal."""


@runtime_checkable
class NamesDeeds(Protocol):
    def deeds(self, task: str) -> tuple[str, ...]:
        """Return the captions (`HasCaptions`) that can be goals, such as `chop tree`: each a verb, with a noun of one
        or more words or none. Moves are left out. No two are equal."""


class Forms(NamedTuple):
    """A list of deeds in a few lines: patterns with placeholders, and the names that each placeholder stands for."""

    patterns: tuple[str, ...]
    """Deeds with words in capitals, such as `put OBJECT on RECEPTACLE`."""
    stands: Mapping[str, tuple[str, ...]]
    """Word in capitals -> the names that it stands for; a pattern means all their combinations."""


@runtime_checkable
class ShowsDeeds(NamesDeeds, Protocol):
    """A suite whose deeds are done by actions of other names, such as `grab mug` by `grab or release`."""

    def deed_forms(self, task: str) -> Forms:
        """Return the patterns of the task's `deeds`, and the names that their placeholders stand for."""

    def doable(self, task: str, observation: Array) -> Sequence[Mapping[str, int]]:
        """Return for each of the observations [n, …] the deeds that are possible in it, by name -> number of the action
        that does it. Only the observation itself is used."""


@runtime_checkable
class TellsNearby(Protocol):
    def nearby(self, task: str, observation: Array, distance: int) -> Sequence[frozenset[str]] | None:
        """Return for each of the observations [n, …] the names of the things within this Manhattan distance (in cells)
        of the agent, in the words of the task's sentences; None if such observations do not show them."""


# Capabilities of tasks


@runtime_checkable
class HasText(Protocol):
    def text(self) -> str:
        """Return what the agent sees, holds and feels now, in sentences."""


@runtime_checkable
class Measured(Protocol):
    """A task of a suite that `HasMeasures`."""

    def measures(self) -> Array:
        """Return measurements of the state after the last step, finite float32 [P]; zeros before an episode's first
        step. Privileged: for oracles only."""


@runtime_checkable
class HasSubgoals(Protocol):
    def subgoals(self) -> Mapping[str, bool]:
        """Return which of the conditions for success hold now, by name. Privileged: for evaluation only."""


@runtime_checkable
class HasOutcomes(Protocol):
    def outcomes(self) -> Mapping[str, float]:
        """Return numbers of the episode that has just ended, by name, such as `completion`, the share of its subgoals
        that were met; finite. A report shows their means. Privileged: for evaluation only."""


@runtime_checkable
class ScoresEpisodes(Protocol):
    def score(self) -> float:
        """Return the score of the episode that has just ended, for a task-specific score (`SuitePart.scores`)."""


@runtime_checkable
class HasCaptions(Protocol):
    def caption(self) -> str:
        """Return what the last step did, in a few words such as `chop tree`; "" if it did nothing, and before an
        episode's first step."""


@runtime_checkable
class Telling(HasText, HasCaptions, Protocol):
    """A task that describes its state and its steps in words."""


@runtime_checkable
class HasExpert(Protocol):
    def expert(self) -> Any:
        """Return the next action of a solver that knows the task's state. Privileged: for demonstrations and probes."""


# Capabilities of the actors of an evaluation


@runtime_checkable
class FollowsSolvers(Protocol):
    def follow(self, solvers: Sequence[Callable[[], Any]]) -> None:
        """Receive, before the episodes begin, one function per episode that returns the action of the suite's own
        solver in the state that the episode is in. Privileged: only for an agent whose configuration declares
        `backend = "oracle"`."""
