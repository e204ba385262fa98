"""What some suites, tasks and drawings can tell besides what all of them do: one small Protocol each.

`isinstance(suite, HasCoordinates)` asks for it, and a type checker knows what it then may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from guidebench.harness.interfaces import Array, Coordinates, Surroundings

if TYPE_CHECKING:
    from guidebench.harness.trajectories import Demonstration


# Of suites


@runtime_checkable
class Demonstrates(Protocol):
    def demonstrate(self, task: str, seed: int) -> Demonstration | None:
        """Return an episode of the suite's own solver that begins with `reset(seed)`
        (`harness.episodes.demonstrations.play`), or None where the solver never succeeds."""


@runtime_checkable
class HasGoal(Protocol):
    def goal_snapshot(self, task: str, seed: int) -> Array | None:
        """Return the snapshot, uint8 [n], of the first state in which the suite's own solver succeeds in the episode
        that begins with `reset(seed)` (`harness.episodes.demonstrations.first_success`), or None where it never does.
        It is the same to the byte whenever it is asked for. A method that shows it to a model as a goal image is told
        something that no reward tells, which its page says."""


@runtime_checkable
class HasCoordinates(Protocol):
    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        """What of an observation can be told in words."""


def coordinates(suite: object, task: str) -> tuple[Coordinates, ...]:
    """What of a task's observations can be told in words; nothing where the suite does not tell."""
    return suite.coordinates(task) if isinstance(suite, HasCoordinates) else ()


@runtime_checkable
class HasSurroundings(Protocol):
    def surroundings(self, task: str) -> Surroundings:
        """What is around the things that coordinates tell of, such as walls."""


@runtime_checkable
class HasRewards(Protocol):
    def rewards(self, task: str, observations: Array) -> Array:
        """The task's own reward of observations [n, D], float [n], as far as it follows from them; privileged, for
        diagnostics."""


# Of tasks


@runtime_checkable
class HasSubgoals(Protocol):
    def subgoals(self) -> Mapping[str, bool]:
        """Of the parts that make up its success, which hold now; privileged, for evaluation alone."""


@runtime_checkable
class ScoresEpisodes(Protocol):
    def score(self) -> float:
        """What the episode that has just ended is worth, of a task whose suite names a score of its own."""


@runtime_checkable
class HasExpert(Protocol):
    def expert(self) -> Any:
        """The next action of a solver that knows the task's state; privileged, for demonstrations and probes."""
