"""Bounds on the number of stretches and episodes of runs, compared with all ways in which episodes can end."""

from functools import cache

import pytest

from guidebench.harness import lengths
from guidebench.harness.plan import config, matrix


class Suite:
    """A suite whose episodes have `shortest` to `horizon` steps."""

    def __init__(self, shortest: int, horizon: int) -> None:
        self._shortest, self._horizon = shortest, horizon

    def shortest(self, task: str) -> int:
        return self._shortest

    def horizon(self, task: str) -> int:
        return self._horizon


class SuiteView:
    def __init__(self, suite: Suite) -> None:
        self.suite, self.task = suite, "task"


@cache
def most(steps: int, length: int, shortest: int, horizon: int) -> int:
    """Return the largest number of stretches of `length` into which a run of `steps` steps can be cut."""
    going_on = min(steps, horizon - 1) // length  # of an unfinished episode only full stretches count
    counts = [
        -(-episode // length) + most(steps - episode, length, shortest, horizon)
        for episode in range(shortest, min(steps, horizon) + 1)
    ]
    return max([going_on, *counts])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("shortest", "horizon"), [(1, 9), (3, 9), (4, 5), (6, 6), (9, 9)])
def test_stretches_are_never_more_and_hardly_fewer(length: int, shortest: int, horizon: int) -> None:
    view = SuiteView(Suite(shortest, horizon))
    for steps in range(1, 40):
        bound, exact = lengths.stretches(view, length, steps), most(steps, length, shortest, horizon)
        assert exact <= bound <= exact + -(-horizon // length)
    assert lengths.stretches(view, length, 36 * horizon) <= 36 * horizon / shortest * -(-horizon // length)


def test_episodes_that_nothing_ends_leave_no_stretch_short() -> None:
    view = SuiteView(Suite(100, 100))
    assert lengths.stretches(view, 32, 1_000) == 10 * 4 and lengths.ended(view, 1_099) == 10
    assert lengths.stretches(SuiteView(Suite(1, 100)), 32, 1_000) == 1_000, "each step may end an episode"


def test_what_is_counted_of_a_cell() -> None:
    (cell,) = matrix.plan(
        ["suite=minigrid_doorkey", "task=5x5", "method=uer", "profile=smoke", "learner.learning_starts=32",
         "training.steps=100", "evaluation.every=30", "evaluation.episodes=2", "training.demonstrations=3"]
    ).trained  # fmt: skip
    view = config.cell_view(cell)
    assert lengths.evaluations(view) == 4 and lengths.tested(view) == 8
    assert lengths.tested_steps(view) == 8 * 250 and lengths.demonstrated(view) == 3 * 250
    assert lengths.demonstrated_stretches(view, 100) == 3 * 3
