"""Solvers that choose an action from the present state, and solvers that plan a whole episode in advance."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.episodes.solvers import solver
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions


def test_a_task_that_has_an_expert_is_followed_from_any_state() -> None:
    suite = registry.get("suite", "minigrid_doorkey")()
    task: Any = suite.make("5x5")
    task.reset(3)
    act = solver(suite, "5x5", task, 3)
    for wrong in (0, 0, 1):  # turns that the solver did not choose
        task.step(wrong)
    while not (step := task.step(act())).terminated:
        assert not step.truncated
    assert step.success


@pytest.mark.parametrize("actions", [Actions(4), Actions(shape=(2,))])
@pytest.mark.parametrize("is_solved", [True, False])
def test_a_planned_episode_is_repeated_and_then_nothing_is_done(actions: Actions, is_solved: bool) -> None:
    planned = np.array([3, 1]) if actions.discrete else np.ones((2, 2), np.float32)

    class Planned:
        def demonstrate(self, task: str, seed: int) -> Any:
            assert (task, seed) == ("there", 8)
            return SimpleNamespace(action=planned) if is_solved else None

        def spaces(self, task: str) -> Any:
            return None, actions

    act = solver(Planned(), "there", object(), 8)  # type: ignore[arg-type]
    moves = np.array([act() for _ in range(3)])
    still = np.zeros_like(planned[:1])
    assert (moves == np.concatenate([planned, still] if is_solved else [still] * 3)).all()


def test_a_suite_without_solver_is_refused() -> None:
    with pytest.raises(UserError, match="no solver of task 'there'"):
        solver(object(), "there", object(), 0)  # type: ignore[arg-type]
