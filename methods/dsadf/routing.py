"""The choice of who acts towards a sub-goal: the learner (System 1) or the performer (DSADF, eq. 5 and algorithm 2,
lines 6-13)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from guidebench.methods.dsadf.memory import Memory
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.slow_system import PERFORMER

LEARNER = "learner"
"""The name of System 1 in logs."""
Router = Literal["both", "rl", "model"]


class Route(NamedTuple):
    """Who acts towards a sub-goal, and why."""

    by: str
    """`learner` or `performer`."""
    why: str
    proficiency: float | None = None
    """The sub-goal's p in M; None if it is not in M, has no score, or was not looked up."""


ABSENT, UNSCORED, NOT_PROFICIENT = "it is not in memory", "unscored", "not proficient"
"""Reasons to route a sub-goal of a plan to the performer."""


def route(subgoal: Subgoal | None, memory: Memory, router: Router, threshold: float, goal: str = "") -> Route:
    """Return who acts towards a sub-goal in an episode with this `goal`, and why; None is the task itself, without a
    plan.

    With `both`, the learner acts if the sub-goal is in M with p ≥ T, the `threshold`, and else the performer; with `rl`
    always the learner, with `model` always the performer. A sub-goal in M without a usable score is `unscored`."""
    if router != "both":
        return Route(LEARNER if router == "rl" else PERFORMER, f"agent.router={router}")
    if subgoal is None:
        return Route(PERFORMER, "there is no plan")
    skill = memory.find(subgoal.name, goal)
    if skill is None:
        return Route(PERFORMER, ABSENT)
    if (p := skill.proficiency) is None:
        return Route(PERFORMER, UNSCORED)
    return Route(LEARNER, "proficient", p) if p >= threshold else Route(PERFORMER, NOT_PROFICIENT, p)
