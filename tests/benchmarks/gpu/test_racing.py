"""Contenders in threads take turns one at a time, and one that fails leaves the others in the race."""

import time
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu import racing
from benchmarks.gpu.racing import Contender, Stop
from benchmarks.gpu.training import recording_captured
from guidebench.baselines.captured import UpdateStatistics
from guidebench.baselines.learners.q_learning.learner import Kind

MOST = 10_000


def counting_contender(log: list[str], name: str, fails_at: int = MOST) -> Contender:
    """Return a contender that appends its name to `log` at each step, and fails at step `fails_at`."""

    def train(stop: Stop) -> None:
        for step in range(1, MOST):
            if step == fails_at:
                raise ValueError("lost")
            log.append(name)
            if stop():
                return

    return Contender(name, train, "cpu")


def test_contenders_alternate_with_equal_steps() -> None:
    log: list[str] = []
    reports: list[int] = []
    both = [counting_contender(log, "a"), counting_contender(log, "b")]
    running = racing.race(both, 3, 2, 2, time.monotonic() - 1, lambda: reports.append(len(log)))
    assert running == both and len(reports) == 4
    assert "".join(log) == "aaaaa" + "bbbbb" + "bbaa" + "aabb"
    assert [contender.steps for contender in both] == [[2, 2], [2, 2]]
    assert all(seconds > 0 for contender in both for seconds in contender.seconds)


@pytest.mark.parametrize("fails_at", [1, 6])
def test_a_contender_that_fails_is_reported_and_the_others_go_on(fails_at: int) -> None:
    log: list[str] = []
    ours, peer = counting_contender(log, "ours"), counting_contender(log, "peer", fails_at)
    assert racing.race([ours, peer], 3, 2, 2, time.monotonic() - 1, lambda: None) == [ours]
    mine, theirs = racing.rows([ours, peer], peer, "DQN", 64)
    assert mine.figure is not None and mine.ratio is None and mine.turns == 2
    assert theirs.figure is None and theirs.note == "ValueError: lost"


def test_rates_count_every_seed_and_ratios_are_of_equal_rounds() -> None:
    """Five seeds take 10 steps in 2 s and in 5 s, so 25 and 10 steps a second; one seed takes 1 s and 2 s, so the
    ratios are 2.5 and 2."""
    five, single = (Contender(name, lambda stop: None, "cpu", seeds) for name, seeds in (("five", 5), ("one", 1)))
    for contender, seconds in ((five, [2.0, 5.0]), (single, [1.0, 2.0])):
        contender.steps, contender.seconds = [10, 10], seconds
    row = racing.rows([five], single, "DQN", 64)[0]
    assert (row.lowest, row.figure, row.highest, row.seeds) == (10, 17.5, 25, 5)
    assert (row.ratio_lowest, row.ratio, row.ratio_highest) == (2, 2.25, 2.5)


def test_an_eager_contender_captures_nothing() -> None:
    def learn(sample: object, kind: Kind) -> UpdateStatistics:
        return UpdateStatistics(("loss",), torch.zeros(1, 1))

    contenders: list[racing.Contender] = []
    captured = recording_captured(contenders, eager=True)(learn)  # type: ignore[arg-type]
    sample, kind = SimpleNamespace(reward=torch.zeros(1, 1)), Kind(None, False, (True,))
    for _ in range(9):
        captured(sample, kind)
    assert contenders == [captured] and not captured.graphs and captured.refused
