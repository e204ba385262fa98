"""B-Pref's scripted teachers: what each of their flaws does to labels."""

import numpy as np
import pytest

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.baselines.teachers.oracle import Oracle
from guidebench.baselines.teachers.oracle.teacher import preference
from guidebench.harness.interfaces import Array
from tests.baselines.learners.continuous import build


def pair(first: list[float], second: list[float]) -> Pair:
    rewards = np.array([first, second], np.float32)
    return Pair(0, 0, np.zeros((*rewards.shape, 2), np.float32), rewards)


def label(asked: Pair, scale: float = 0.0, seed: int = 0, **settings: float) -> Verdict:
    return Oracle(**settings).spawn(build()).label(asked, scale, np.random.default_rng(seed))


def often(asked: Pair, count: int = 4000, **settings: float) -> float:
    """How often the second is preferred."""
    teacher, rng = Oracle(**settings).spawn(build()), np.random.default_rng(0)
    return float(np.mean([teacher.label(asked, 0.0, rng).label for _ in range(count)]))


def test_the_perfect_teacher_prefers_the_larger_return_and_labels_equal_ones_one_half() -> None:
    assert label(pair([1, 1], [3, 0])) == Verdict("labelled", 1.0, is_used=True)
    assert label(pair([3, 0], [1, 1])) == Verdict("labelled", 0.0, is_used=True)
    assert label(pair([2, 1], [1, 2])) == Verdict("equal", 0.5, is_used=True)


def test_a_noisy_teacher_prefers_by_a_softmax_of_beta_times_returns() -> None:
    assert preference(1.0, 1.0) == pytest.approx(0.7310586) and preference(-2.0, 0.5) == pytest.approx(0.2689414)
    assert preference(1e6, 1.0) == 1.0 and preference(-1e6, 1.0) == 0.0
    assert often(pair([0, 0], [0.5, 0.5]), beta=1.0) == pytest.approx(0.731, abs=0.02)
    assert often(pair([0, 0], [0.5, 0.5]), beta=0.0) == pytest.approx(0.5, abs=0.02)


def test_a_myopic_teacher_remembers_the_end_best() -> None:
    # with γ = .5 the returns are 4·¼ + 0 + 0 = 1 and 0 + 0 + 2 = 2
    assert label(pair([4, 0, 0], [0, 0, 2])).label == 0.0
    assert label(pair([4, 0, 0], [0, 0, 2]), gamma=0.5).label == 1.0


def test_a_teacher_that_errs_turns_that_share_of_preferences_round() -> None:
    assert often(pair([0], [1]), mistake=0.1) == pytest.approx(0.9, abs=0.015)
    assert often(pair([1], [1]), count=50, mistake=1.0) == 0.5  # what is equal is not


def test_a_pair_of_which_neither_is_worth_a_look_is_skipped() -> None:
    poor, good = pair([0.2], [0.5]), pair([0.2], [1.1])
    assert label(poor, 10.0, skip=0.1) == Verdict("skipped") and label(good, 10.0, skip=0.1).outcome == "labelled"
    for scale in (0.0, -10.0):  # before an episode ended; under a reward that punishes
        assert label(poor, scale, skip=0.1).outcome == "labelled"


def test_returns_closer_than_the_threshold_are_equal() -> None:
    near, apart = pair([5.0], [5.9]), pair([5.0], [6.1])
    assert label(near, 10.0, equal=0.1) == Verdict("equal", 0.5, is_used=True)
    assert label(apart, 10.0, equal=0.1).outcome == "labelled"
    assert label(near, 0.0, equal=0.1).outcome == label(near, -10.0, equal=0.1).outcome == "labelled"


def test_every_flaw_draws_from_the_generator_it_is_given_alone() -> None:
    asked = pair([0.0], [0.1])

    def labels() -> list[Array]:
        teacher, rng = Oracle(beta=1.0, mistake=0.2).spawn(build()), np.random.default_rng(3)
        return [teacher.label(asked, 0.0, rng).label for _ in range(20)]

    assert labels() == labels() and len(set(labels())) == 2


def test_it_labels_at_once_and_asks_nobody() -> None:
    teacher = Oracle().spawn(build())
    assert teacher.to is None and not teacher.wants_snapshots and not Oracle.needs
