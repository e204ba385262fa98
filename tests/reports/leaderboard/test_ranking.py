from __future__ import annotations

import numpy as np
import pytest

from benchmarks import error_rates
from guidebench.harness import statistics
from guidebench.harness.statistics import Sample
from guidebench.harness.statistics.resampling import ends
from guidebench.reports.leaderboard import minimum, ranking


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


def sample(*scores: float) -> Sample:
    return Sample(np.array(scores)[:, None])


def test_a_rank_counts_the_rows_that_the_test_calls_better_and_the_interval_corrects_for_all_pairs() -> None:
    """If five runs are all better than five others, p is 2 / 252 = .0079, below .05 / 3; if one of them is not, p is
    larger."""
    low, middle, high = (sample(*(np.arange(5) + shift)) for shift in (0, 5, 9))
    ranks = ranking.ranks([low, middle, high])
    pairs = statistics.all_pairs([low, middle, high], "iqm")
    assert pairs[0, 1] == pairs[0, 2] == pytest.approx(2 / 252) and 0.05 / 3 > pairs[1, 2] > 2 / 252
    assert ranks.rank.tolist() == [3, 2, 1]
    assert ranks.low.tolist() == [3, 2, 1] and ranks.high.tolist() == [3, 2, 1]
    four = ranking.ranks([sample(*scores.scores[:4, 0]) for scores in (low, middle, high)])
    assert four.rank.tolist() == [3, 2, 1], "2 / 70 is below .05"
    assert four.low.tolist() == [1, 1, 1] and four.high.tolist() == [3, 3, 3], "and not below .05 / 3"


def test_three_runs_are_ranked_alike_whatever_they_are() -> None:
    assert ranking.ranks([sample(1, 1, 1), sample(0, 0, 0)]).rank.tolist() == [1, 1]
    assert ranking.ranks([sample(1, 1, 1, 1), sample(0, 0, 0, 0)]).rank.tolist() == [1, 2]
    assert ranking.ranks([sample(1, 1, 1, 1)] * 2).rank.tolist() == [1, 1]
    assert ranking.ranks([sample(1, 1, 1, 1)])[0].tolist() == [1]
    alone = ranking.scored(np.array([[0.5]]), "a")
    assert alone.estimate == 0.5 and np.isnan(alone.low), "one run has no interval"


def test_the_page_says_how_many_pairs_few_seeds_can_separate() -> None:
    assert minimum.separable() == "no pairs with 3, 1 pair with 4, 6 pairs with 5, 23 pairs with 6"
    assert minimum.separable() in minimum.FEW


def test_equal_rows_are_set_below_another_in_at_most_five_percent_of_boards() -> None:
    """Boards of two equal rows of five seeds, on one task and on two: 5 % of 200 boards are 10, and chance seldom adds
    9."""
    for tasks in (1, 2):
        ours, theirs, missed = error_rates.placed_apart(2, 5, tasks, 200, reps=200)
        assert ours == missed <= 0.095 and theirs > ours
