"""Plans and reflections of chats that know the task's own sub-goals, and actions of one that asks the task's solver;
their answers are those of the dialogues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.baselines.conversing import Misread
from guidebench.harness.interfaces import Question
from guidebench.harness.models.oracle import solution
from guidebench.methods.dsadf import plans, scripted
from guidebench.methods.dsadf.planning import stored
from guidebench.methods.dsadf.plans import Subgoal, Vocabulary, listed


class KnownPlan:
    """Answers as `planning.PlannerDialogue` does."""

    def __init__(self, subgoals: Sequence[str], omits: float) -> None:
        """`omits`: probability that a first plan lacks one of its prerequisites."""
        self._plan, self._omits = tuple(map(Subgoal, subgoals)), omits

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return the sub-goals; for a final plan all of them; and no target, since the task's instruction is one."""
        told = json.loads(question.content)
        if "history" in told:
            return {"target": "", "fault": "", "retries": 0}
        final = "plan" in told
        wrong = not final and generator.random() < self._omits
        plan = scripted.shortened(self._plan, generator.random()) if wrong else self._plan
        return {"plan": stored(plan), "thoughts": "", "fault": "", "retries": 0}


class KnownReflection:
    """Answers as `planning.ReflectorDialogue` does."""

    def __init__(self, subgoals: Sequence[str]) -> None:
        self._names = tuple(subgoals)

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return the sub-goals as the revised plan if another one is given, such as one with a step that is none of
        them."""
        told = json.loads(question.content)["plan"]
        try:
            given = [name for name, _ in plans.read(told, Vocabulary(self._names, self._names), scripted.MANY)]
        except Misread:
            given = []
        if given == [*self._names]:
            return {"strengths": "It is the known plan.", "weaknesses": "", "plan": [], "fault": ""}
        weaknesses = f"It is not the known plan: {listed(list(map(Subgoal, self._names)))}"
        plan = stored(tuple(map(Subgoal, self._names)))
        return {"strengths": "", "weaknesses": " ".join(weaknesses.split()), "plan": plan, "fault": ""}


class KnownAction:
    """Answers as `performing.PerformerDialogue` does."""

    def __init__(self, names: Sequence[str], error: float) -> None:
        """`names`: those of the actions, in order; `error`: probability that a possible action is drawn instead."""
        self._names, self._error = tuple(names), error

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return the solver's action; one of the possible ones, drawn uniformly, in its place if that is an error or
        not possible."""
        possible = json.loads(question.content)["possible"]
        action = -1 if generator.random() < self._error else int(solution(question))
        if action not in possible:
            action = possible[int(generator.integers(len(possible)))]
        return {"action": self._names[action], "faults": [], "said": ""}
