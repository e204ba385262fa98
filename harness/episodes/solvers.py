"""The suite's own solver as the policy of an evaluation's episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from guidebench.harness.capabilities import Demonstrates, HasExpert
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Suite, Task

Solver = Callable[[], Any]
"""Returns the solver's action in the state that its episode is in."""


def solver(suite: Suite, name: str, task: Task, seed: int) -> Solver:
    """Return the solver of the episode that has just begun with `task.reset(seed)`; `name` is the task's name in
    `suite`. Raise UserError for a suite without a solver.

    A solver that plans whole episodes (`Demonstrates` without `HasExpert`) repeats the actions of its demonstration of
    this seed. If it never succeeds there, or the episode outlasts them, the action is 0, or a vector of zeros.
    """
    if isinstance(task, HasExpert):
        return task.expert
    if not isinstance(suite, Demonstrates):
        raise UserError(f"suite {type(suite).__name__} has no solver of task {name!r}")
    demonstration, actions = suite.demonstrate(name, seed), suite.spaces(name)[1]
    still = 0 if actions.discrete else np.zeros(actions.shape, np.float32)
    planned = iter(() if demonstration is None else demonstration.action)
    return lambda: next(planned, still)
