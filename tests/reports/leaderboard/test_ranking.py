from __future__ import annotations

import numpy as np
import pytest

from benchmarks import error_rates
from guidebench.reports import statistics
from guidebench.reports.leaderboard import ranking
from guidebench.reports.leaderboard.ranking import Scored
from guidebench.reports.statistics.resampling import ends


def test_the_interval_of_a_score_is_that_of_the_statistics() -> None:
    rng = np.random.default_rng(1)
    for tasks in (1, 3):
        scores = rng.integers(0, 17, (5, tasks)) / 16
        theirs = statistics.intervals(scores, ["iqm"], ranking.REPS, statistics.name_seed("a", 0))["iqm"]
        assert ends(ranking.resamples(scores, "a")) == pytest.approx([float(theirs.low), float(theirs.high)], abs=1e-9)


def test_draws_depend_on_the_name_and_are_independent_of_another_rows() -> None:
    scores = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
    first, second = ranking.resamples(scores, "a"), ranking.resamples(scores, "b")
    assert (first == ranking.resamples(scores, "a")).all() and abs(np.corrcoef(first, second)[0, 1]) < 0.05


def scored(*rows: np.ndarray) -> list[Scored]:
    return [ranking.scored(np.reshape(own, (len(own), -1)), str(index)) for index, own in enumerate(rows)]


def test_a_rank_counts_the_rows_that_the_test_calls_better_and_the_interval_corrects_for_all_pairs() -> None:
    """Means of three, variance .01: e = .0816, t(4) = 2.776 for 5 % and 5.18 or so for a third of a percent of it."""
    low, middle, high = (np.array([0.1, 0.2, 0.3]) + shift for shift in (0, 0.3, 0.6))
    found = ranking.ranks(scored(low, middle, high))
    assert found.rank.tolist() == [3, 2, 1]  # t = 3.67 and 7.35
    assert found.low.tolist() == [2, 1, 1] and found.high.tolist() == [3, 3, 2]


def test_rows_without_a_spread_are_ranked_from_three_runs_on() -> None:
    """All 1 beside all 0: for equal rows 2 in 16 of two and two, 2 in 64 of three and three."""
    for runs, ranked in ((2, [1, 1]), (3, [1, 2])):
        assert ranking.ranks(scored(np.ones(runs), np.zeros(runs))).rank.tolist() == ranked
    assert ranking.ranks(scored(np.ones(4), np.ones(4))).rank.tolist() == [1, 1]
    assert ranking.ranks(scored(np.ones(4)))[0].tolist() == [1]
    (alone,) = scored(np.array([0.5]))
    assert alone.score.estimate == 0.5 and np.isnan(alone.score.low), "one run has no interval"


def test_of_one_task_and_three_seeds_the_test_is_welchs_of_the_means() -> None:
    """The IQM of three is their mean; the bootstrap's variance is exact but for the noise of its resamples."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second = rng.normal(size=(2, 3))
        found = ranking._p_values(
            np.array([np.mean(first) - np.mean(second)]),
            statistics.Spread(*(np.array([part]) for part in scored(first)[0].spread)),
            scored(second)[0].spread,
        )
        assert float(found[0]) == pytest.approx(statistics.t_test(first, second), abs=0.01)


def test_equal_rows_are_set_below_another_in_at_most_five_percent_of_boards() -> None:
    """Two rows, three seeds, on one task and on five; of 200 boards 5 % are 10, and chance seldom adds 9."""
    for tasks in (1, 5):
        ours, theirs = error_rates.placed_apart(2, 3, tasks, 200, reps=200)
        assert ours <= 0.095 and theirs > ours + 0.02
