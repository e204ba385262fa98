"""The progressive reward: of the task, of completed sub-goals, and of steps that do the present one (DSADF, §4.3)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from guidebench.baselines.text_vectors import cosine
from guidebench.harness.interfaces import Array
from guidebench.methods.dsadf.course import Course


class Terms(NamedTuple):
    """The three rewards of one step."""

    task: float
    """R_T: 1 in the step in which the task is first solved, else 0 (eq. 7)."""
    subgoals: int
    """R_sub: number of sub-goals that the step completed, T left out (eq. 8)."""
    proximity: float
    """R_proxi, 0 or in (β, 1] (eq. 9)."""

    def total(self, gammas: tuple[float, float, float]) -> float:
        """Return R = γ1 R_T + γ2 R_sub + γ3 R_proxi (eq. 10)."""
        return gammas[0] * self.task + gammas[1] * self.subgoals + gammas[2] * self.proximity


class Completed(NamedTuple):
    """A sub-goal that a step completed."""

    name: str
    steps: int
    """Steps for which it was the present sub-goal."""


def proximity(caption: Array, goal: Array, beta: float) -> float:
    """Return R_proxi: the cosine of the vectors of a step's caption and of the present sub-goal if it exceeds β, else 0
    (eq. 9). `caption` and `goal`: float [width]; zeros for a step without a caption."""
    similarity = cosine(caption, goal)
    return similarity if similarity > beta else 0.0


def advance(course: Course, did: Collection[str], after: Collection[str] | None) -> list[Completed]:
    """Advance an episode's course by one step and return the sub-goals that the step completed: the present one by the
    step's deeds, and then one to find something by the deeds that became possible. Unless the plan is partial, its last
    sub-goal is the task T and is never completed.

    `did`: the deeds of the step; `after`: those that are possible after it, None where observations do not show them.
    """
    done = []
    present, at, steps = course.present, course.at, course.steps + 1
    course.acted(did)
    if present is not None and course.at > at:
        done.append(Completed(present.name, steps))
    present, at, steps = course.present, course.at, course.steps
    course.look(after)
    if present is not None and course.at > at:
        done.append(Completed(present.name, steps))
    return done
