"""How long runs can become: stretches of steps by trying every way in which episodes can end."""

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


class There:
    def __init__(self, suite: Suite) -> None:
        self.suite, self.task = suite, "task"


@cache
def most(steps: int, length: int, shortest: int, horizon: int) -> int:
    """The most stretches of `length` that a run of so many steps can be cut into."""
    going_on = min(steps, horizon - 1) // length  # of an episode that has not ended, full stretches count alone
    ended = [
        -(-episode // length) + most(steps - episode, length, shortest, horizon)
        for episode in range(shortest, min(steps, horizon) + 1)
    ]
    return max([going_on, *ended])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("shortest", "horizon"), [(1, 9), (3, 9), (4, 5), (6, 6), (9, 9)])
def test_stretches_are_never_more_and_hardly_fewer(length: int, shortest: int, horizon: int) -> None:
    there = There(Suite(shortest, horizon))
    for steps in range(1, 40):
        bound, found = lengths.stretches(there, length, steps), most(steps, length, shortest, horizon)
        assert found <= bound <= found + -(-horizon // length)
    assert lengths.stretches(there, length, 36 * horizon) <= 36 * horizon / shortest * -(-horizon // length)


def test_episodes_that_nothing_ends_leave_no_stretch_short() -> None:
    there = There(Suite(100, 100))
    assert lengths.stretches(there, 32, 1_000) == 10 * 4 and lengths.ended(there, 1_099) == 10
    assert lengths.stretches(There(Suite(1, 100)), 32, 1_000) == 1_000, "each step may end an episode"


def test_what_is_counted_of_a_cell() -> None:
    (cell,) = matrix.plan(
        ["suite=minigrid_doorkey", "task=5x5", "method=uer", "profile=smoke", "learner.learning_starts=32",
         "training.steps=100", "evaluation.every=30", "evaluation.episodes=2", "training.demonstrations=3"]
    ).trained  # fmt: skip
    there = config.cell_view(cell)
    assert lengths.evaluations(there) == 4 and lengths.tested(there) == 8
    assert lengths.tested_steps(there) == 8 * 250 and lengths.demonstrated(there) == 3 * 250
    assert lengths.demonstrated_stretches(there, 100) == 3 * 3
