"""Whole cycles of gradient steps are timed, after as many transitions are stored as learners draw from."""

from typing import Any

import numpy as np
import pytest

from guidebench.harness.interfaces import RunPhase
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import trial


class Loop:
    """A loop with a simulated clock: a step takes half a second, and an update 30 seconds more."""

    def __init__(self, *phases: RunPhase, first: float = 30.0) -> None:
        self.agent: Any = self
        self.phases = lambda: phases
        self.now, self.step, self.steps_taken, self.updates, self._first = 0.0, 0, 0, 0, first

    def enter(self, phase: RunPhase) -> None: ...

    def advance(self, phase: RunPhase) -> None:
        self.step += 1
        self.steps_taken += 1
        self.now += 0.5
        if (self.step >= 500 and self.step % 4 == 0) if phase.updates is None else phase.updates:
            self.now += 30.0 if self.updates else self._first
            self.updates += 1

    def trial(self) -> estimates.Trial:
        return estimates.Trial(self, lambda: np.array([self.now, self.now / 10]), lambda: self.now)  # type: ignore


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.8, 1.5, 4.0])
def test_filling_ends_by_count_and_the_only_update_is_timed(seconds: float) -> None:
    """64 steps of half a second take longer than the time allows, as does one update. One cycle warms up, whose first
    update takes 90 seconds, and the next is timed: (4 · .5 + 30) / 4 = 8 s a step, after 500 steps of .5 s."""
    loop = Loop(RunPhase("train", 10_000), first=90.0)
    times = loop.trial().training(500, 64, 4, seconds)
    assert (loop.steps_taken, loop.updates) == (64 + 4 + 4, 2)
    assert times.tolist() == pytest.approx([500 * 0.5 + 9_500 * 8.0, 25.0 + 9_500 * 0.8])


def test_as_many_cycles_are_timed_as_the_time_allows_after_three_that_warm_up() -> None:
    loop = Loop(RunPhase("train", 10_000))
    assert loop.trial().training(500, 64, 4, 100.0)[0] == 250.0 + 9_500 * 8.0
    assert loop.updates == 3 + 4  # of 32 seconds each; the fourth begins within 100 s


def test_the_common_cycle_is_that_of_all_parts_that_repeat_within_a_thousand_steps() -> None:
    assert [trial.common_cycle(cycles) for cycles in ([1, 4, 6], [4, 5_000], [256, 1], [999, 1_000])] == [
        12, 4, 256, 1_000
    ]  # fmt: skip
    (planned_cell,) = matrix.plan(["suite=classic", "task=CartPole-v1", "profile=quick", "seeds=1"]).cells
    assert planned_cell.section("learner").cycle == 256, "128 gradient steps at every 256th step"


def test_a_phase_shorter_than_a_cycle_is_timed_as_a_whole_and_phases_add_up() -> None:
    loop = Loop(RunPhase("offline", 3, "none", updates=1), RunPhase("train", 602))
    times = loop.trial().training(500, 64, 4, 0.1)
    # three steps with an update each; the steps to 500 without; 105 steps from there on
    assert times[0] == pytest.approx(3 * 30.5 + 497 * 0.5 + 105 * 8.0)


def test_an_evaluation_that_takes_longer_than_the_time_allows_is_extrapolated_to_the_time_limit() -> None:
    """Of two episodes of at most 99 steps one ends after 4; each step takes a second, and 20 seconds are allowed."""
    loop = Loop()

    class Task:
        max_steps = 99

    def evaluator(agent, step, rows, watch, consult):
        for count in range(100):
            for number in (0, 1) if count <= 4 else (1,):
                loop.now += 1.0
                watch(number, Task(), None)

    times = loop.trial().evaluation(evaluator, [0], 20.0)  # type: ignore[arg-type]
    assert times[0] == pytest.approx(21 * (5 + 99) / 21)  # 21 resets and steps of 5 and of, at most, 99
