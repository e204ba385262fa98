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
    """The sub-goal's p in M; None if it is not there, has no score, or was not looked up."""


ABSENT, UNSCORED, NOT_PROFICIENT = "it is not in memory", "unscored", "not proficient"
"""Why a sub-goal of a plan is the performer's."""


def route(subgoal: Subgoal | None, memory: Memory, router: Router, threshold: float) -> Route:
    """Return who acts towards a sub-goal, None for the task itself: with `both`, the learner if the sub-goal is in M
    with p ≥ T, the threshold, and else the performer; with `rl` always the learner, with `model` the performer. A
    sub-goal in M to which the scorer gave no usable score has no p and is `unscored`."""
    if router != "both":
        return Route(LEARNER if router == "rl" else PERFORMER, f"agent.router={router}")
    if subgoal is None:
        return Route(PERFORMER, "there is no plan")
    skill = memory.find(subgoal.name)
    if skill is None:
        return Route(PERFORMER, ABSENT)
    if (p := skill.proficiency) is None:
        return Route(PERFORMER, UNSCORED)
    return Route(LEARNER, "proficient", p) if p >= threshold else Route(PERFORMER, NOT_PROFICIENT, p)
