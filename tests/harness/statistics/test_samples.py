"""Tests with episodes as units."""

import numpy as np
import pytest

from guidebench.harness.statistics import Sample, samples
from guidebench.harness.statistics.resampling import Array


def rates(*successes: int, episodes: int) -> Sample:
    """Return success rates of runs on one task with equally many episodes each."""
    scores = np.array(successes)[:, None] / episodes
    return Sample(scores, scores * (1 - scores) / (episodes - 1), np.full(scores.shape, episodes))


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ((3, 3), (0, 3), 2 / 20),
        ((3, 4), (1, 4), (16 + 1 + 16 + 1) / 70),  # Fisher's tea
        ((4, 4), (4, 4), 1.0),
        ((2, 2), (0, 3), 1 / 10),  # C(5, 2) tables; the other extreme, none of two, has 3 of them
    ],
)
def test_fishers_test_of_a_worked_example(first: tuple[int, int], second: tuple[int, int], p: float) -> None:
    assert samples.fisher_p(first, second) == pytest.approx(p) == samples.fisher_p(second, first)


def test_newcombes_interval_of_his_own_example() -> None:
    """56 of 70 beside 48 of 80: .0524 and .3339 by method 10 (Newcombe 1998, table II)."""
    assert samples.newcombe((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_success_rates_of_one_task_are_tested_by_their_counts_and_other_means_by_their_error() -> None:
    first, second = rates(10, 10, 9, episodes=10), rates(5, 4, 6, episodes=10)
    assert first.outcomes == (29, 30) and samples.p_of_episodes(first, second) == samples.fisher_p((29, 30), (15, 30))
    low, high = samples.interval_of_episodes(first, second)
    assert (low, high) == samples.newcombe((29, 30), (15, 30)) and low > 0
    returns = Sample(np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]]))  # sqrt(2) / 2
    others = Sample(np.array([[0.0], [0.0]]), np.array([[1.0], [1.0]]))
    assert returns.outcomes is None and returns.error() == pytest.approx(0.5**0.5) == others.error()
    assert samples.p_of_episodes(returns, others) == pytest.approx(0.0455, abs=1e-4)  # a gap of 2, an error of 1
    assert samples.interval_of_episodes(returns, others) == pytest.approx((0.04, 3.96), abs=1e-3)


def test_a_rate_that_fisher_does_not_reject_has_0_in_its_interval_and_one_that_he_does_has_not() -> None:
    rejected = 0
    for ours in range(11):
        for theirs in range(11):
            first, second = (rates(successes, 0, episodes=10) for successes in (ours, theirs))
            low, high = samples.interval_of_episodes(first, second)
            p = samples.p_of_episodes(first, second)
            assert (low > 0 or high < 0) == (p < 0.05)
            rejected += p < 0.05
    assert 20 < rejected < 100


@pytest.mark.parametrize("variances", [None, np.array([[0.1], [np.nan]])])
def test_with_one_episode_there_is_no_such_test(variances: Array | None) -> None:
    measured = Sample(np.zeros((2, 1)), np.ones((2, 1)))
    unknown = Sample(np.array([[1.0], [2.0]]), variances)
    assert np.isnan(samples.p_of_episodes(unknown, measured)) and np.isnan(unknown.error("iqm"))


def test_the_error_of_an_iqm_draws_episodes_within_their_runs() -> None:
    """With three runs of a task it is the mean, whose error is sqrt(Σ v) / 3; without variance there is none."""
    spread = rates(3, 5, 8, episodes=10)
    binomial = float(np.sqrt((spread.scores * (1 - spread.scores) / 10).sum()) / 3)
    assert spread.error("iqm") == pytest.approx(binomial, rel=0.05)
    normal = Sample(np.array([[1.0], [5.0], [9.0]]), np.array([[1.0], [4.0], [4.0]]))
    assert normal.error("iqm") == pytest.approx(1.0, rel=0.05)
    assert rates(10, 10, 0, 10, episodes=10).error("iqm") == 0
    assert samples.normal_p(0.5, 0.0) == 0 and samples.normal_p(0.0, 0.0) == 1
