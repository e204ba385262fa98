from __future__ import annotations

import numpy as np
import pytest

from reports import statistics
from reports.leaderboard import ranking
from reports.statistics.resampling import ends


def test_the_interval_of_a_score_is_that_of_the_statistics() -> None:
    rng = np.random.default_rng(1)
    for tasks in (1, 3):
        scores = rng.integers(0, 17, (5, tasks)) / 16
        theirs = statistics.intervals(scores, ["iqm"], ranking.REPS, statistics.name_seed("a", 0))["iqm"]
        assert ends(ranking.resamples(scores, "a")) == pytest.approx([float(theirs.low), float(theirs.high)], abs=1e-9)


def test_draws_depend_on_the_name_and_are_independent_of_another_rows() -> None:
    scores = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
    first, second = ranking.resamples(scores, "a"), ranking.resamples(scores, "b")
    assert (first == ranking.resamples(scores, "a")).all()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


def test_a_rank_counts_the_rows_that_are_surely_better_and_ties_share_all_the_ranks_they_take_up() -> None:
    found = ranking.ranks(np.array([[1.0] * 1000, [0.5] * 1000, [1.0] * 1000]))
    assert found.rank.tolist() == [1, 3, 1]
    assert found.low.tolist() == [1, 3, 1] and found.high.tolist() == [2, 3, 2]


@pytest.mark.parametrize(("wins", "rank"), [(975, 2), (974, 1), (500, 1)])
def test_surely_better_means_that_the_interval_of_the_difference_leaves_out_zero(wins: int, rank: int) -> None:
    rng = np.random.default_rng(0)
    other = np.full(1000, 0.5)
    better = rng.permutation(np.where(np.arange(1000) < wins, 0.6, 0.4))
    low, _ = ends(better - other)
    assert (low > 0) == (rank == 2)
    assert ranking.ranks(np.stack([better, other])).rank.tolist() == [1, rank]


def test_a_difference_that_is_nought_in_a_twentieth_of_the_resamples_is_not_sure() -> None:
    better = np.where(np.arange(1000) < 950, 0.6, 0.5)
    found = ranking.ranks(np.stack([better, np.full(1000, 0.5)]))
    assert found.rank.tolist() == [1, 1] and found.high.tolist() == [2, 2] and found.low.tolist() == [1, 1]


def test_ranks_are_those_of_a_plain_count() -> None:
    rng = np.random.default_rng(3)
    drawn = np.round(rng.random((9, 203)) * 0.3 + np.linspace(0, 0.5, 9)[:, None], 1)
    found = ranking.ranks(drawn)
    cut = int(0.025 * 203)
    for i in range(9):
        sure = sum(np.sort(drawn[j] - drawn[i])[cut] > 1e-9 for j in range(9))
        best = sorted(1 + sum(other > own for other in column) for own, column in zip(drawn[i], drawn.T, strict=True))
        worst = sorted(sum(other >= own for other in column) for own, column in zip(drawn[i], drawn.T, strict=True))
        assert found.rank[i] == 1 + sure
        assert found.low[i] == min(best[cut], 1 + sure) and found.high[i] == max(worst[202 - cut], 1 + sure)


def test_it_agrees_with_the_bootstrapped_difference_of_the_statistics() -> None:
    rng = np.random.default_rng(5)
    scores = [np.clip(rng.normal(mean, 0.1, (5, 2)), 0, 1) for mean in (0.2, 0.25, 0.5, 0.8)]
    drawn = np.stack([ranking.resamples(own, str(index)) for index, own in enumerate(scores)])
    for i, own in enumerate(scores):
        found = [statistics.difference(other, own, "iqm", reps=10_000, seed=7) for other in scores]
        pairs = np.array([ends(drawn[j] - drawn[i]) for j in range(4)])
        theirs = np.array([[float(each.low), float(each.high)] for each in found])
        others = [j for j in range(4) if j != i]
        assert np.abs(pairs - theirs)[others].max() < 0.02  # of the noise of 10,000 resamples
        assert ranking.ranks(drawn).rank[i] == 1 + (theirs[others, 0] > 0).sum()


def test_many_rows_are_compared_on_fewer_resamples_and_never_on_few() -> None:
    assert ranking.compared(200) == ranking.REPS and ranking.compared(1_000) == 4_000
    assert ranking.compared(10**6) == ranking.FEWEST_REPS


def test_more_rows_than_a_byte_counts_are_counted() -> None:
    drawn = np.repeat(np.arange(300.0)[:, None] / 300, 16, axis=1)
    found = ranking.ranks(drawn)
    assert found.rank.tolist() == list(range(300, 0, -1)) == found.high.tolist() == found.low.tolist()
