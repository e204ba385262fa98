"""Who acts towards a sub-goal: System 1, the learner, or the performer (DSADF, eq. 5 and algorithm 2, lines 6-13)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from guidebench.methods.dsadf.memory import Memory
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.slow_system import PERFORMER

LEARNER = "learner"
"""System 1, as logs name it."""
Router = Literal["both", "rl", "model"]


class Route(NamedTuple):
    """Who acts towards a sub-goal, and why."""

    by: str
    """`learner` or `performer`."""
    why: str
    proficiency: float | None = None
    """The sub-goal's p in M; None if it is not there, or was not looked up."""


def route(subgoal: Subgoal | None, memory: Memory, router: Router, threshold: float) -> Route:
    """Return who acts towards a sub-goal, None for the task itself: with `both`, the learner if the sub-goal is in M
    with p ≥ T, the threshold, and else the performer; with `rl` always the learner, with `model` the performer."""
    if router != "both":
        return Route(LEARNER if router == "rl" else PERFORMER, f"agent.router={router}")
    if subgoal is None:
        return Route(PERFORMER, "there is no plan")
    p = memory.proficiency(subgoal.name)
    if p is None:
        return Route(PERFORMER, "it is not in memory")
    if p >= threshold:
        return Route(LEARNER, "proficient", p)
    return Route(PERFORMER, "not proficient", p)
