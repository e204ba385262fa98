"""The comparison of rows: its p-value, its intervals, corrections for several rows, and which rows are best."""

from pathlib import Path

import numpy as np
import pytest

from guidebench import results
from guidebench.harness import statistics
from guidebench.harness.statistics import Sample, permutation, samples
from guidebench.harness.statistics.comparison import cannot_tell

LOW, HIGH = (Sample(np.array([[0.1], [0.2], [0.3], [0.4]]) + shift) for shift in (0.0, 0.5))


def rates(*successes: int, episodes: int) -> Sample:
    scores = np.array(successes)[:, None] / episodes
    return Sample(scores, scores * (1 - scores) / (episodes - 1), np.full(scores.shape, episodes))


def test_p_is_the_larger_of_that_of_runs_and_that_of_episodes() -> None:
    """Five runs at 6 of 10 against five at 5: every run is above all others, yet 30 of 50 episodes are little more than
    25."""
    near = rates(*[6] * 5, episodes=10), rates(*[5] * 5, episodes=10)
    assert permutation.p_value(near[0].scores, near[1].scores) == pytest.approx(2 / 252)
    assert statistics.p_value(*near) == samples.fisher_p((30, 50), (25, 50)) > 0.4
    far = rates(*[9] * 5, episodes=10), rates(*[5] * 5, episodes=10)
    assert samples.fisher_p((45, 50), (25, 50)) < 2 / 252 == pytest.approx(statistics.p_value(*far))
    assert statistics.all_pairs([*near, far[0]]) == {
        (0, 1): statistics.p_value(*near),
        (0, 2): statistics.p_value(near[0], far[0]),
        (1, 2): statistics.p_value(near[1], far[0]),
    }


@pytest.mark.parametrize("metric", ["mean", "iqm", "median"])
def test_all_pairs_are_the_pairs_one_by_one(metric: str) -> None:
    rng = np.random.default_rng(0)
    rows = [Sample(rng.random((n, 2)), np.full((n, 2), 0.01)) for n in (3, 4, 4)]
    p_values = statistics.all_pairs(rows, metric)
    assert p_values == pytest.approx({(i, j): statistics.p_value(rows[i], rows[j], metric) for i, j in p_values})
    assert np.isnan(statistics.all_pairs([LOW, Sample(HIGH.scores[:1])])[0, 1])


def test_an_interval_holds_that_of_runs_and_that_of_episodes_and_is_cut_at_what_is_possible() -> None:
    first, second = rates(10, 10, 10, 10, episodes=10), rates(1, 0, 0, 0, episodes=10)
    interval = statistics.interval(first, second, bounds=(-1.0, 1.0))
    low, high = permutation.interval(first.scores, second.scores)
    newcombe = samples.newcombe((40, 40), (1, 40))
    assert (float(interval.low), float(interval.high)) == (min(low, newcombe[0]), max(high, newcombe[1]))
    assert newcombe[0] < low, "similar runs spread less than their episodes"
    wide = statistics.interval(HIGH, LOW, level=0.98, bounds=(-1.0, 1.0))
    assert (float(wide.low), float(wide.high)) == (-1, 1), "at this level four runs reject nothing"
    # runs that are all alike show no spread, and their episodes do
    alike = statistics.interval(first, first, bounds=(-1.0, 1.0))
    assert alike.low < -0.05 and alike.high > 0.05


def test_three_runs_cannot_tell_and_have_no_interval() -> None:
    first, second = (Sample(sample.scores[:3]) for sample in (HIGH, LOW))
    comparison = statistics.compare(second, {"a": first})["a"]
    assert comparison.p == pytest.approx(0.1) and comparison.difference.estimate == pytest.approx(0.5)
    assert np.isnan([*comparison.difference[1:], *comparison.adjusted[1:]]).all()
    assert comparison.interval_note == "3 seeds cannot tell"
    assert statistics.compare(LOW, {"a": HIGH})["a"].interval_note == ""
    assert cannot_tell(1) == "1 seed cannot tell"


def test_holm_of_a_worked_example() -> None:
    """In order .005 × 4, .01 × 3, .03 × 2, .04 × 1, none below its predecessor."""
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.5, np.nan, 0.6])[[0, 2]] == pytest.approx([1.0, 1.0])
    assert np.isnan(statistics.holm([0.5, np.nan, 0.6])[1])
    assert statistics.holm([0.2]) == pytest.approx([0.2]) and statistics.holm([]).shape == (0,)


def test_adjusted_intervals_are_at_the_level_of_their_step() -> None:
    """Three rows: the one that differs is tested at .05 / 3; the second fails at .05 / 2, where the last one stays
    too."""
    rng = np.random.default_rng(2)
    reference = Sample(rng.normal(size=(8, 1)))
    others = {
        "same": Sample(rng.normal(size=(8, 1))),
        "apart": Sample(reference.scores + 5),
        "near": Sample(rng.normal(size=(8, 1)) + 0.5),
    }
    comparisons = statistics.compare(reference, others)
    ordered = sorted(others, key=lambda name: comparisons[name].p)
    assert ordered[0] == "apart" and comparisons[ordered[1]].adjusted_p > 0.05
    for name, divisor in zip(ordered, (3, 2, 2), strict=True):
        assert comparisons[name].adjusted == statistics.interval(others[name], reference, level=1 - 0.05 / divisor)
        assert comparisons[name].difference == statistics.interval(others[name], reference)
    assert comparisons["apart"].adjusted_p == pytest.approx(3 * comparisons["apart"].p)


def test_an_interval_leaves_out_nought_exactly_where_its_p_value_is_below_five_percent() -> None:
    rng = np.random.default_rng(4)
    significant = 0
    for study in range(40):
        runs = 5 + study % 2
        reference = rates(*rng.integers(0, 11, runs) // 2, episodes=10)
        others = {str(shift): rates(*rng.integers(shift, 11, runs), episodes=10) for shift in (0, 3, 6)}
        others["still"] = rates(*[10] * runs, episodes=10)
        for comparison in statistics.compare(reference, others, bounds=(-1.0, 1.0)).values():
            assert (comparison.adjusted.low > 0 or comparison.adjusted.high < 0) == (comparison.adjusted_p < 0.05)
            assert (comparison.difference.low > 0 or comparison.difference.high < 0) == (comparison.p < 0.05)
            significant += comparison.adjusted_p < 0.05
    assert 20 < significant < 140


def test_methods_of_equal_p_share_a_level_in_any_order() -> None:
    others = {"a": HIGH, "b": HIGH}
    comparisons = statistics.compare(LOW, others)
    assert (
        comparisons == statistics.compare(LOW, dict(reversed(others.items())))
        and comparisons["a"].p == comparisons["b"].p
    )
    assert comparisons["b"].adjusted == statistics.compare(LOW, {"b": HIGH}, level=0.975)["b"].difference


def test_a_side_with_one_run_has_a_difference_and_nothing_else() -> None:
    comparisons = statistics.compare(LOW, {"one": Sample(HIGH.scores[:1]), "more": HIGH})
    assert comparisons["one"].difference.estimate == pytest.approx(0.35)
    assert np.isnan([*comparisons["one"].difference[1:], *comparisons["one"].adjusted[1:], comparisons["one"].p]).all()
    assert np.isnan(comparisons["one"].adjusted_p)
    assert (
        comparisons["more"].adjusted_p == comparisons["more"].p
    )  # the row with one run does not count as a comparison


def test_the_best_are_the_smallest_top_set_that_differs_from_all_others() -> None:
    pairs = {(0, 1): 0.5, (0, 2): 0.02, (1, 2): 0.01}
    assert statistics.leading([0.8, 0.9, 0.2], pairs) == [True, True, False]
    assert statistics.leading([0.8, 0.9, 0.2], {**pairs, (0, 1): 0.04}) == [False, True, False]
    assert statistics.leading([0.8, 0.9, 0.2], {**pairs, (0, 2): 0.05}) == [False] * 3, (
        "one pair does not differ significantly"
    )
    assert statistics.leading([0.8, 0.9, 0.2], dict.fromkeys(pairs, np.nan)) == [False] * 3
    assert statistics.leading([1.0], {}) == [False] and statistics.leading([0.04, 0.85], {(0, 1): 0.1}) == [False] * 2


def test_equivalence_within_a_margin() -> None:
    """The runs differ by 0: a difference of the margin or more is 1 relabelling in 70 once the margin exceeds the
    range."""
    equivalence = statistics.equivalence(LOW, LOW, 0.5)
    assert equivalence.p == pytest.approx(1 / 70) and equivalence.is_equivalent
    assert equivalence.difference.low > -0.5 and equivalence.difference.high < 0.5
    near = statistics.equivalence(LOW, LOW, 0.01)
    assert near.p > 0.3 and not near.is_equivalent and not statistics.equivalence(HIGH, LOW, 0.5).is_equivalent
    with pytest.raises(ValueError, match="margin is 0"):
        statistics.equivalence(LOW, LOW, 0)


def test_what_cannot_be_compared_is_refused_with_its_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(4, 2\) and \(4, 1\)"):
        statistics.compare(LOW, {"a": Sample(np.zeros((4, 2)))})
    with pytest.raises(ValueError, match="NaN"):
        statistics.p_value(LOW, Sample(np.full((3, 1), np.nan)))


@pytest.mark.parametrize(
    ("study", "own_cell", "peer_cell", "margin", "p"),
    [
        ("cartpole_dqn", "9263dbde7f", "33aea4a3b9", 50, 0.58),
        ("pendulum_sac_td3", "4f4e2669ed", "82180522dd", 25, 0.13),
        ("pendulum_sac_td3", "8b2e74843a", "fc96b5d249", 25, 0.19),
    ],
)
def test_the_measured_learners_are_not_shown_equal_to_their_peers(
    study: str, own_cell: str, peer_cell: str, margin: float, p: float
) -> None:
    """The numbers that the READMEs of these measured studies state for the final return."""
    rows = results.load(Path(__file__).parents[3] / "results" / "measured" / study)
    last = rows[rows["step"] == rows["step"].max()].groupby(["cell", "seed"])["return"].mean()
    tested = statistics.equivalence(*(Sample(last[cell].to_numpy()[:, None]) for cell in (own_cell, peer_cell)), margin)
    assert tested.p == pytest.approx(p, abs=0.005) and not tested.is_equivalent


def test_the_standard_error_of_a_difference_is_that_of_its_definition() -> None:
    """Variances are 1 and 0: for three and ten runs sqrt(1 / 3 + 0 / 10); over two tasks half the sum."""
    first, second = np.array([[1.0], [2.0], [3.0]]), np.zeros((10, 1))
    assert statistics.standard_error(first, second) == pytest.approx(3**-0.5)
    assert statistics.standard_error(np.hstack([first, first]), np.zeros((2, 2))) == pytest.approx((2 / 3) ** 0.5 / 2)
    assert np.isnan(statistics.standard_error(first, second[:1]))


def test_an_equivalence_test_at_a_smaller_error_has_a_wider_interval() -> None:
    """Four equal runs beside four: the smallest one-sided p is 1 / 70, below .05 and not below .01."""
    near = Sample(LOW.scores / 100)
    usual, strict = (statistics.equivalence(near, near, 0.2, level) for level in (0.95, 0.99))
    assert usual.p == strict.p == pytest.approx(1 / 70) and usual.is_equivalent and not strict.is_equivalent
    assert strict.difference.low <= usual.difference.low
