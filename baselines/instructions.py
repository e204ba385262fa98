"""The instruction of each episode, on tasks with one goal and on those whose goal changes from episode to episode."""

from __future__ import annotations

from collections.abc import Sequence

from guidebench.harness.capabilities import InstructsByObservation
from guidebench.harness.interfaces import Array, Build
from guidebench.harness.parts import CellView


class Instructions:
    """The instructions of the episodes of S seeds."""

    def __init__(self, build: Build) -> None:
        suite = build.parts["suite"]
        self._suite, self._task = suite, build.task
        self.fixed = [build.suite(row).make(build.task).instruction for row in range(build.rows)]
        """The instruction of each seed's task; of no use where the goal changes."""
        self.change = build.task in getattr(suite, "by_turns", ())
        """Whether the goal changes from episode to episode."""

    def of(self, observation: Array, rows: Sequence[int]) -> list[str]:
        """Return the instructions of the episodes of observations [n, …] of these seed rows."""
        return self.changing(observation) if self.change else [self.fixed[row] for row in rows]

    def changing(self, observation: Array) -> list[str]:
        """Return the instructions of the episodes of observations [n, …]; "" for each where the goal is fixed."""
        if not self.change:
            return [""] * len(observation)
        assert isinstance(self._suite, InstructsByObservation), "`unshown` refuses other suites"
        return [*self._suite.instructions_at(self._task, observation)]


def unshown(view: CellView) -> str:
    """Return why a part that asks about each episode by its own instruction cannot work in this cell, or ""."""
    if view.task not in view.suite.by_turns or isinstance(view.suite, InstructsByObservation):
        return ""
    return (
        f"the goal of task {view.task!r} changes from episode to episode, and the suite does not read it from "
        f"observations (`instructions_at`); choose a single task"
    )
