"""Privileged answers: plans and reflections from the task's own sub-goals, and actions of the task's solver.

They have the form that the dialogues of the same roles return.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Question
from guidebench.harness.models.oracle import solution
from guidebench.methods.dsadf import plans, scripted
from guidebench.methods.dsadf.planning import stored
from guidebench.methods.dsadf.plans import Subgoal, Vocabulary, listed


class KnownPlan:
    """Answers the planner's questions with the task's own sub-goals, in the form of `planning.PlannerDialogue`."""

    def __init__(self, plans: Mapping[str, Sequence[str]], omits: float) -> None:
        """`plans`: goal -> sub-goals, the goal "" for a task that has a single one; `omits`: probability that a first
        plan lacks one of its prerequisites."""
        self._plans, self._omits = plans, omits

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return a plan of the sub-goals, from which a first plan may lack one; or, for a question about the target,
        the target "", so that the task's instruction stays the goal."""
        content = json.loads(question.content)
        if "history" in content:
            return {"target": "", "fault": "", "retries": 0}
        final = "plan" in content
        wrong = not final and generator.random() < self._omits
        subgoals = tuple(map(Subgoal, self._plans[content.get("goal", "")]))
        plan = scripted.shortened(subgoals, generator.random()) if wrong else subgoals
        return {"plan": stored(plan), "thoughts": "", "fault": "", "retries": 0}


class KnownReflection:
    """Answers the reflector's questions by the task's own sub-goals, in the form of `planning.ReflectorDialogue`."""

    def __init__(self, plans: Mapping[str, Sequence[str]]) -> None:
        """`plans`: as of `KnownPlan`."""
        self._plans = plans

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return no weaknesses if the plan in question is the list of sub-goals, else that list as the revised plan."""
        content = json.loads(question.content)
        subgoals = [*self._plans[content.get("goal", "")]]
        try:
            names = [name for name, _ in plans.read(content["plan"], Vocabulary(subgoals, subgoals), scripted.MANY)]
        except Misread:
            names = []
        if names == subgoals:
            return {"strengths": "It is the known plan.", "weaknesses": "", "plan": [], "fault": ""}
        weaknesses = f"It is not the known plan: {listed(list(map(Subgoal, subgoals)))}"
        plan = stored(tuple(map(Subgoal, subgoals)))
        return {"strengths": "", "weaknesses": " ".join(weaknesses.split()), "plan": plan, "fault": ""}


class KnownAction:
    """Answers the performer's questions with the solver's action, in the form of `performing.PerformerDialogue`."""

    def __init__(self, names: Sequence[str], error: float) -> None:
        """`names`: those of the actions, in order; `error`: probability that a possible action is drawn instead."""
        self._names, self._error = tuple(names), error

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return the solver's action; where it is impossible, and with probability `error`, a possible action drawn
        uniformly."""
        possible = json.loads(question.content)["possible"]
        action = -1 if generator.random() < self._error else int(solution(question))
        if action not in possible:
            action = possible[int(generator.integers(len(possible)))]
        return {"action": self._names[action], "faults": [], "said": ""}
