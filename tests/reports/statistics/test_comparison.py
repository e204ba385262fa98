from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from guidebench import results
from guidebench.reports import statistics

LOW, HIGH = np.array([[0.1], [0.2], [0.3]]), np.array([[0.7], [0.8], [0.9]])


def test_a_difference_has_zero_in_its_interval_only_where_the_groups_overlap() -> None:
    apart = statistics.difference(HIGH, LOW, "mean", reps=2_000)
    assert apart.estimate == pytest.approx(0.6) and apart.low > 0
    same = statistics.difference(HIGH, HIGH, "mean", reps=2_000)
    assert same.low < 0 < same.high and np.isnan(statistics.difference(HIGH, LOW[:1], "mean").low)


def test_paired_differences_leave_out_what_a_seed_does_to_both() -> None:
    """Seeds shift both sides by up to 10, and the method adds .1, .2 or .3 to each."""
    reference = np.array([[0.0], [5.0], [10.0]])
    other = reference + np.array([[0.1], [0.2], [0.3]])
    paired = statistics.difference(other, reference, "mean", paired=True)
    apart = statistics.difference(other, reference, "mean")
    assert paired.estimate == apart.estimate == pytest.approx(0.2)
    # the mean of three differences: least .1 (1 resample in 27, more than 2.5 %), most .3
    assert (paired.low, paired.high) == (pytest.approx(0.1), pytest.approx(0.3)) and apart.low < -5 and apart.high > 5


def test_a_paired_difference_of_medians_draws_the_same_seeds_on_both_sides_and_pairing_may_be_told_by_name() -> None:
    reference = np.random.default_rng(0).random((4, 3))
    shifted = statistics.difference(reference + 1, reference, "median", reps=500, paired=True)
    assert (shifted.low, shifted.high) == (pytest.approx(1), pytest.approx(1))
    noise = np.array([[0.0], [0.0], [0.01]])
    found = statistics.compare(LOW, {"a": LOW + 1 + noise, "b": LOW + 1 + noise}, paired={"b": True})
    assert not found["a"].paired and found["a"].difference.high > found["a"].difference.low + 0.3
    assert found["b"].paired and found["b"].difference.high < found["b"].difference.low + 0.04


@pytest.mark.parametrize("tasks", [1, 2])
def test_independent_sides_are_not_paired_by_the_way_they_are_drawn(tasks: int) -> None:
    """Both means vary as var / n / tasks with var = 2/3, n = 3; a pairing, of either sign, would show in the spread."""
    scores = np.repeat(np.array([[0.0], [1.0], [2.0]]), tasks, axis=1)
    found = statistics.difference(scores, scores, "mean", reps=50_000)
    assert found.high == pytest.approx(-found.low, abs=0.2)
    assert 1.96 * np.sqrt(2 * 2 / 9 / tasks) == pytest.approx(found.high, abs=0.2)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1.0, 2.0], 1 - 2 * np.arctan(3) / np.pi),  # t = 1.5 / .5 at one degree of freedom
        ([-1.0, -2.0], 1 - 2 * np.arctan(3) / np.pi),
        ([1.0, 1.0, -0.5], 1 - 1 / np.sqrt(3)),  # t = .5 / .5 at two
        ([0.0, 0.0], 1.0),
        ([1.0, -1.0], 1.0),
        ([1.0, 1.0, 1.0], 2 / 8),  # no spread to measure it by: signs may be flipped in eight ways
    ],
)
def test_the_p_value_of_a_worked_example(differences: list[float], expected: float) -> None:
    scores = np.array(differences)[:, None]
    (found,) = statistics.compare(np.zeros_like(scores), {"a": scores}, paired=True).values()
    assert found.paired and found.difference.estimate == pytest.approx(np.mean(differences))
    assert found.p == pytest.approx(expected) and found.adjusted_p == found.p


def test_the_p_value_of_unpaired_means_of_equal_variances_is_students() -> None:
    """Means 1 and 4, variances 1 of three runs each: t = 3 / sqrt(2 / 3) at four degrees of freedom."""
    first, second = np.array([[3.0], [4.0], [5.0]]), np.array([[0.0], [1.0], [2.0]])
    t = 3 / np.sqrt(2 / 3)
    x = t / np.sqrt(t * t + 4)
    assert statistics.t_test(first, second) == pytest.approx(1 - 1.5 * x + 0.5 * x**3)
    assert statistics.t_test(np.ones((3, 1)), np.zeros((3, 1))) == pytest.approx(2 / 64)
    assert np.isnan(statistics.t_test(first, second[:1]))


def test_holm_of_a_worked_example() -> None:
    """In order .005 × 4, .01 × 3, .03 × 2, .04 × 1, none below the one before it."""
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.5, np.nan, 0.6])[[0, 2]] == pytest.approx([1.0, 1.0])
    assert np.isnan(statistics.holm([0.5, np.nan, 0.6])[1])
    assert statistics.holm([0.2]) == pytest.approx([0.2]) and statistics.holm([]).shape == (0,)


def test_adjusted_intervals_are_at_the_level_of_their_step() -> None:
    """Three compared: the one apart at .05 / 3; the second fails at .05 / 2, and there the last one stays too."""
    rng = np.random.default_rng(2)
    reference = rng.normal(size=(10, 1))
    others = {"same": rng.normal(size=(10, 1)), "apart": reference + 5, "near": rng.normal(size=(10, 1)) + 0.5}
    found = statistics.compare(reference, others)
    assert found["apart"].p < found["near"].p < found["same"].p and found["near"].adjusted_p > 0.05
    for name, divisor in {"apart": 3, "near": 2, "same": 2}.items():
        assert found[name].adjusted == statistics.contrast(others[name], reference).interval(1 - 0.05 / divisor)
        assert found[name].difference == statistics.contrast(others[name], reference).interval()
    assert found["apart"].adjusted_p == pytest.approx(3 * found["apart"].p)
    # differences 1, 2 and 3: mean 2, standard error 1 / sqrt(3), and 4.302653 is t's .975 quantile at two degrees
    rising = np.array([[1.0], [2.0], [3.0]])
    alone = statistics.compare(np.zeros((3, 1)), {"a": rising}, paired=True)["a"].adjusted
    half = 4.302653 / 3**0.5
    assert [float(value) for value in alone] == pytest.approx([2, 2 - half, 2 + half])


@pytest.mark.parametrize("paired", [True, False])
def test_an_interval_leaves_out_nought_exactly_where_its_p_value_is_below_five_percent(paired: bool) -> None:
    rng = np.random.default_rng(4)
    told = 0
    for study in range(200):
        runs = 3 + study % 3
        reference = np.round(rng.random((runs, 1)), 1)
        others = {str(shift): np.round(rng.random((runs, 1)) * 0.3 + shift, 1) for shift in (0.3, 0.8, 0.8, 1.5)}
        others["still"] = np.ones((runs, 1)) * 2
        for each in statistics.compare(reference, others, paired=paired).values():
            assert (each.adjusted.low > 0 or each.adjusted.high < 0) == (each.adjusted_p < 0.05)
            told += each.adjusted_p < 0.05
    assert 100 < told < 700


def test_methods_of_equal_p_share_a_level_in_any_order() -> None:
    others = {"a": HIGH, "b": HIGH}
    found = statistics.compare(LOW, others)
    assert found == statistics.compare(LOW, dict(reversed(others.items()))) and found["a"].p == found["b"].p
    assert found["b"].adjusted == statistics.compare(LOW, {"b": HIGH}, level=0.975)["b"].difference


def test_a_side_with_one_run_has_a_difference_and_nothing_else() -> None:
    found = statistics.compare(LOW, {"one": HIGH[:1], "more": HIGH})
    assert found["one"].difference.estimate == pytest.approx(0.5)
    assert np.isnan([*found["one"].difference[1:], *found["one"].adjusted[1:], found["one"].p]).all()
    assert np.isnan([found["one"].adjusted_p, found["one"].detectable]).all()
    assert found["more"].adjusted_p == found["more"].p  # the other is not counted


def test_without_a_spread_the_p_value_is_the_largest_chance_of_this_for_two_outcomes() -> None:
    """All 1 beside all 0 of equal methods: 2 p^n (1 - p)^n is largest at p = 1/2, and below 5 % from three runs on."""
    assert statistics.least(2, 5) == pytest.approx(
        max(2 * p**2 * (1 - p) ** 5 for p in np.linspace(0, 1, 1001)), rel=1e-4
    )
    for runs, p in ((3, 2 / 64), (2, 2 / 16)):
        found = statistics.contrast(np.ones((runs, 1)), np.zeros((runs, 1)))
        assert found.p == pytest.approx(p) and (found.interval().low > 0) == (p < 0.05)
    same = statistics.contrast(np.ones((3, 1)), np.ones((3, 1)))
    assert same.p == 1 and np.isnan(same.interval().low) and not same.errors


def test_unequal_variances_and_numbers_of_runs_are_welchs() -> None:
    """Variances 1 / 2 and 16 / 4 of the means at one and three degrees: 4.5² / (.5² / 1 + 4² / 3) = 3.627."""
    first, second = np.array([0.0, 2.0]) / 2**0.5, np.array([0.0, 0.0, 8.0, 8.0]) * 3**0.5 / 2
    ours, theirs = statistics.spread_of(first), statistics.spread_of(second)
    (error, freedom), (pooled, _) = statistics.welch(ours, theirs)
    assert (float(ours.variance), float(theirs.variance)) == (pytest.approx(1), pytest.approx(16))
    assert error == pytest.approx(4.5**0.5) and freedom == pytest.approx(4.5**2 / (0.25 + 16 / 3))
    assert pooled == pytest.approx(((1 + 3 * 16) / 4 * (1 / 2 + 1 / 4)) ** 0.5)
    rng = np.random.default_rng(0)
    both = statistics.welch(*(statistics.spread_of(rng.normal(size=(5, 3))) for _ in range(2)))
    assert np.array(both[0]) == pytest.approx(np.array(both[1])), "of as many runs on either side they are the same"


def test_three_runs_that_happen_to_be_equal_are_not_taken_to_be_certain() -> None:
    """Ten runs of which seven succeed beside three that all do: pooled variance 2.1 / 11, e = sqrt(.191 × 13 / 30)."""
    ten, three = np.array([1.0] * 7 + [0.0] * 3), np.ones(3)
    found = statistics.contrast(three, ten)
    assert max(found.errors)[0] == pytest.approx((2.1 / 11 * 13 / 30) ** 0.5) and found.p > 0.3
    alone = 0.3 / (2.1 / 9 / 10) ** 0.5  # the t value of Welch's test by itself
    assert alone == pytest.approx(1.964, abs=1e-3)


def test_the_bootstraps_standard_error_of_a_mean_is_the_t_tests() -> None:
    scores = np.array([[0.1], [0.4], [0.9]])
    found, times = statistics.distribution(scores[:, :, None], ["mean"], 200_000, np.random.default_rng(0))
    spread = statistics.bootstrapped(np.repeat(found["mean"][0], times), scores)
    assert float(spread.variance) == pytest.approx(float(np.var(scores, ddof=1)), rel=0.01)
    assert float(spread.freedom) == 2


def test_the_best_and_what_no_test_tells_from_it_lead() -> None:
    """Holm over three pairs: .01 × 3 and .02 × 2 are below 5 %, .5 is not."""
    pairs = {(0, 1): 0.5, (0, 2): 0.02, (1, 2): 0.01}
    assert statistics.leading([0.8, 0.9, 0.2], pairs) == [True, True, False]
    assert statistics.leading([0.8, 0.9, 0.2], {**pairs, (1, 2): 0.03}) == [True, True, True]
    assert statistics.leading([0.8, 0.8, 0.8], pairs) == [False] * 3 and statistics.leading([1.0], {}) == [False]
    assert statistics.leading([0.8, 0.9, 0.2], dict.fromkeys(pairs, np.nan)) == [True] * 3


def test_equivalence_of_a_worked_example() -> None:
    """Differences -1, 0 and 1: e = 1 / sqrt(3); at two degrees P(T > t) = 1/2 - t / (2 sqrt(t² + 2))."""
    first = np.array([-1.0, 0.0, 1.0])
    for margin, shown in ((1.0, False), (2.0, True)):
        t = margin * 3**0.5
        found = statistics.equivalence(first, np.zeros(3), margin, paired=True)
        assert found.p == pytest.approx(0.5 - t / (2 * (t * t + 2) ** 0.5)) and found.shown == shown
        assert (found.difference.low > -margin and found.difference.high < margin) == shown
    with pytest.raises(ValueError, match="margin is 0"):
        statistics.equivalence(first, first, 0)
    assert not statistics.equivalence(np.ones(3), np.ones(3), 0.1).shown  # without a spread nothing is known


def test_what_cannot_be_compared_is_refused_with_its_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(3, 1\)"):
        statistics.compare(LOW, {"a": np.zeros((3, 2))})
    with pytest.raises(ValueError, match=r"paired .* \(2, 1\) and \(3, 1\)"):
        statistics.compare(LOW, {"a": HIGH[:2]}, paired=True)
    with pytest.raises(ValueError, match="NaN"):
        statistics.difference(LOW, np.full((3, 1), np.nan), "mean")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # variance .04 of three beside none: e = .2 / sqrt(3), t at 2 degrees of freedom 4.302653 + 1.060660
        ([0.1, 0.3, 0.5], [0.2, 0.2, 0.2], 5.363313 * 0.2 / 3**0.5),
        # variances .04 of three and three: e = .2 sqrt(2/3), t at 4 degrees of freedom 2.776445 + 0.940965
        ([0.1, 0.3, 0.5], [0.2, 0.4, 0.6], 3.717410 * 0.2 * 0.8164966),
        # variance .5 of two beside none of three: e = sqrt(.5 / 2), t at 1 degree of freedom 12.7062 + 1.376382
        ([0.0, 1.0], [0.0, 0.0, 0.0], 14.082587 * 0.5),
    ],
)
def test_the_detectable_difference_of_a_worked_example(first: list, second: list, expected: float) -> None:
    assert statistics.detectable_difference(np.array(first), np.array(second)) == pytest.approx(expected, rel=1e-5)
    assert statistics.detectable_difference(np.array(second), np.array(first)) == pytest.approx(expected, rel=1e-5)


def test_the_detectable_difference_of_pairs_and_of_a_mean_over_tasks() -> None:
    """Two tasks alike: 8 degrees of freedom for 4, t 2.306004 + 0.888890, and half the variance of the mean."""
    # pairs differ by .1, .3, .5: s = .2, sqrt(1/3), t at 2 degrees of freedom 4.302653 + 1.060660
    reference = np.array([0.0, 5.0, 10.0])
    found = statistics.detectable_difference(reference + np.array([0.1, 0.3, 0.5]), reference, paired=True)
    assert found == pytest.approx(5.363313 * 0.2 / np.sqrt(3), rel=1e-5)
    first, second = np.array([[0.1], [0.3], [0.5]]), np.array([[0.2], [0.4], [0.6]])
    both = np.repeat(first, 2, axis=1), np.repeat(second, 2, axis=1)
    expected = 3.194894 * 0.2 * 0.8164966 / np.sqrt(2)
    assert statistics.detectable_difference(*both) == pytest.approx(expected, rel=1e-5)
    # a task without spread adds no degrees of freedom and halves the difference
    flat = np.full((3, 1), 0.2)
    still = statistics.detectable_difference(np.hstack([first, flat]), np.hstack([second, flat]))
    assert still == pytest.approx(statistics.detectable_difference(first, second) / 2, rel=1e-5)
    for one, other in (([0.5], [0.1, 0.2]), ([0.1] * 3, [0.7] * 3), ([0.0] * 2, [0.0] * 2)):
        assert np.isnan(statistics.detectable_difference(np.array(one), np.array(other))), "without a spread none is"


@pytest.mark.parametrize(
    ("study", "ours", "theirs", "margin", "p"),
    [
        ("cartpole_dqn", "9263dbde7f", "33aea4a3b9", 50, 0.58),
        ("pendulum_sac_td3", "4f4e2669ed", "82180522dd", 25, 0.13),
        ("pendulum_sac_td3", "8b2e74843a", "fc96b5d249", 25, 0.21),
    ],
)
def test_the_measured_learners_are_not_shown_equal_to_their_peers(
    study: str, ours: str, theirs: str, margin: float, p: float
) -> None:
    """The numbers that results/measured/README.md states of the final return."""
    found = results.load(Path(__file__).parents[3] / "results" / "measured" / study)
    last = found[found["step"] == found["step"].max()].groupby(["cell", "seed"])["return"].mean()
    tested = statistics.equivalence(last[ours].to_numpy(), last[theirs].to_numpy(), margin)
    assert tested.p == pytest.approx(p, abs=0.005) and not tested.shown


def test_the_standard_error_of_a_difference_is_that_of_its_definition() -> None:
    """Variances 1 and 0: of three and of ten runs sqrt(1 / 3 + 0 / 10), though the test pools them to a larger one."""
    first, second = np.array([[1.0], [2.0], [3.0]]), np.zeros((10, 1))
    assert statistics.standard_error(first, second) == pytest.approx(3**-0.5)
    assert statistics.standard_error(second, first) == pytest.approx(3**-0.5)
    assert statistics.standard_error(first, np.array([[0.0], [1.0], [5.0]]), paired=True) == pytest.approx(1.0)
    assert statistics.standard_error(np.ones((3, 1)), np.zeros((3, 1)), paired=True) == 0, "no run differs from another"
    assert np.isnan(statistics.standard_error(first, second[:1]))
