"""Privileged weights of actions, from the suite's own solver, in the form of the dialogue's answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.interfaces import Question
from guidebench.harness.models.oracle import solution


class KnownPrior:
    """Answers questions for weights with the solver's action, in the form of `dialogue.PriorDialogue`."""

    def __init__(self, actions: int, error: float) -> None:
        """`actions`: how many there are; `error`: probability that all weight is on an action drawn at random."""
        self._actions, self._error = actions, error

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any]:
        """Return all weight on the solver's action in the present state, or on one drawn uniformly."""
        wrong = generator.random() < self._error
        action = int(generator.integers(self._actions)) if wrong else int(solution(question))
        return {"weights": [float(number == action) for number in range(self._actions)], "unknown": 0}
