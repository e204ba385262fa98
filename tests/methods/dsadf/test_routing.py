"""Equation 5: who acts towards a sub-goal."""

import pytest

from guidebench.methods.dsadf.memory import Memory
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.routing import Route, Router, route


def memory(p: float | None, rewarded: bool = True) -> Memory:
    filled = Memory()
    skill = filled.skill("chop tree")
    skill.proficiency, skill.rewarded = p, rewarded
    return filled


@pytest.mark.parametrize(
    ("name", "skills", "router", "expected"),
    [
        ("chop tree", memory(0.7), "both", Route("learner", "proficient", 0.7)),
        ("chop tree", memory(0.69), "both", Route("performer", "not proficient", 0.69)),
        ("chop tree", memory(1.0, rewarded=False), "both", Route("performer", "it is not in memory")),
        ("chop grass", memory(1.0), "both", Route("performer", "it is not in memory")),
        ("chop tree", memory(None), "both", Route("performer", "unscored")),
        ("", memory(1.0), "both", Route("performer", "there is no plan")),
        ("chop grass", memory(0.0), "rl", Route("learner", "agent.router=rl")),
        ("chop tree", memory(1.0), "model", Route("performer", "agent.router=model")),
    ],
)  # fmt: skip
def test_routes(name: str, skills: Memory, router: Router, expected: Route) -> None:
    assert route(Subgoal(name, 3) if name else None, skills, router, 0.7) == expected
