from __future__ import annotations

import numpy as np
import pytest

from reports import statistics

LOW, HIGH = np.array([[0.1], [0.2], [0.3]]), np.array([[0.7], [0.8], [0.9]])


def test_a_difference_has_zero_in_its_interval_only_where_the_groups_overlap() -> None:
    apart = statistics.difference(HIGH, LOW, "mean", reps=2_000)
    assert apart.estimate == pytest.approx(0.6) and apart.low > 0
    same = statistics.difference(HIGH, HIGH, "mean", reps=2_000)
    assert same.low < 0 < same.high
    assert np.isnan(statistics.difference(HIGH, LOW[:1], "mean").low)


def test_paired_differences_leave_out_what_a_seed_does_to_both() -> None:
    """Seeds shift both sides by up to 10, and the method adds .1, .2 or .3 to each."""
    reference = np.array([[0.0], [5.0], [10.0]])
    other = reference + np.array([[0.1], [0.2], [0.3]])
    paired = statistics.difference(other, reference, "mean", paired=True)
    apart = statistics.difference(other, reference, "mean")
    assert paired.estimate == apart.estimate == pytest.approx(0.2)
    # the mean of three differences: least .1 (1 resample in 27, more than 2.5 %), most .3
    assert (paired.low, paired.high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert apart.low < -5 and apart.high > 5


def test_a_paired_difference_of_medians_draws_the_same_seeds_on_both_sides() -> None:
    reference = np.random.default_rng(0).random((4, 3))
    shifted = statistics.difference(reference + 1, reference, "median", reps=500, paired=True)
    assert (shifted.low, shifted.high) == (pytest.approx(1), pytest.approx(1))


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
    assert found.p == pytest.approx(expected)
    assert found.adjusted_p == found.p


def test_the_p_value_of_unpaired_means_is_students() -> None:
    """Means 1 and 4, variances 1 of three runs each: t = 3 / sqrt(2 / 3) at four degrees of freedom."""
    first, second = np.array([[3.0], [4.0], [5.0]]), np.array([[0.0], [1.0], [2.0]])
    t = 3 / np.sqrt(2 / 3)
    x = t / np.sqrt(t * t + 4)
    assert statistics.t_test(first, second) == pytest.approx(1 - 1.5 * x + 0.5 * x**3)
    assert statistics.t_test(np.ones((3, 1)), np.zeros((3, 1))) == pytest.approx(2 / 20)  # 3 of 6 in 20 ways
    assert np.isnan(statistics.t_test(first, second[:1]))


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1.0, 2.0], 2 / 50_001),  # no resample at or below 0, one is added
        # at or below 0: -.5 three times, 1 in 27, or twice beside one 1, 6 in 27
        ([1.0, 1.0, -0.5], 2 * 7 / 27),
        ([1.0, -1.0], 1.0),  # 3 in 4 are at or below 0, 3 in 4 at or above
    ],
)
def test_the_p_value_of_another_metric_is_the_bootstraps(differences: list[float], expected: float) -> None:
    scores = np.array(differences)[:, None]
    (found,) = statistics.compare(np.zeros_like(scores), {"a": scores}, paired=True, metric="median").values()
    assert found.p == pytest.approx(expected, rel=1e-9 if expected < 0.01 else 0.03)


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
    found = statistics.compare(reference, others, reps=5_000)
    assert found["apart"].p < found["near"].p < found["same"].p and found["near"].adjusted_p > 0.05
    for name, divisor in {"apart": 3, "near": 2, "same": 2}.items():
        alone = statistics.compare(reference, {name: others[name]}, reps=5_000, level=1 - 0.05 / divisor)[name]
        assert found[name].adjusted == alone.difference
        assert found[name].difference != alone.difference
        assert found[name].p == alone.p  # its draws are its own
        assert (found[name].adjusted.low > 0) == (found[name].adjusted_p < 0.05)
    assert found["apart"].adjusted_p == pytest.approx(3 * found["apart"].p)


def test_methods_of_equal_p_share_a_level_in_any_order() -> None:
    others = {"a": HIGH, "b": HIGH}
    found = statistics.compare(LOW, others, reps=1_000)
    turned = statistics.compare(LOW, dict(reversed(others.items())), reps=1_000)
    assert found == turned and found["a"].p == found["b"].p
    alone = statistics.compare(LOW, {"b": HIGH}, reps=1_000, level=0.975)["b"]
    assert found["b"].adjusted == alone.difference


def test_a_side_with_one_run_has_a_difference_and_nothing_else() -> None:
    found = statistics.compare(LOW, {"one": HIGH[:1], "more": HIGH}, reps=200)
    assert found["one"].difference.estimate == pytest.approx(0.5)
    assert np.isnan([*found["one"].difference[1:], *found["one"].adjusted[1:], found["one"].p]).all()
    assert np.isnan([found["one"].adjusted_p, found["one"].detectable]).all()
    assert found["more"].adjusted_p == found["more"].p  # the other is not counted


def test_pairing_may_be_told_by_name() -> None:
    found = statistics.compare(LOW, {"a": LOW + 1, "b": LOW + 1}, paired={"b": True}, reps=500)
    assert not found["a"].paired and found["a"].difference.high > found["a"].difference.low + 0.01
    assert found["b"].paired and found["b"].difference.high == pytest.approx(found["b"].difference.low)


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
        # s = sqrt(.08 / 4), t at 4 degrees of freedom 2.776445 + 0.940965, sqrt(1/3 + 1/3)
        ([0.1, 0.3, 0.5], [0.2, 0.2, 0.2], 3.717410 * 0.1414214 * 0.8164966),
        # s = sqrt(.5 / 3), t at 3 degrees of freedom 3.182446 + 0.978472, sqrt(1/2 + 1/3)
        ([0.0, 1.0], [0.0, 0.0, 0.0], 4.160918 * 0.4082483 * 0.9128709),
    ],
)
def test_the_detectable_difference_of_a_worked_example(first: list, second: list, expected: float) -> None:
    assert statistics.detectable_difference(np.array(first), np.array(second)) == pytest.approx(expected, rel=1e-5)
    assert statistics.detectable_difference(np.array(second), np.array(first)) == pytest.approx(expected, rel=1e-5)


def test_the_detectable_difference_of_pairs_is_that_of_their_differences() -> None:
    """Differences .1, .3, .5: s = .2, sqrt(1/3), t at 2 degrees of freedom 4.302653 + 1.060660."""
    reference = np.array([0.0, 5.0, 10.0])
    found = statistics.detectable_difference(reference + np.array([0.1, 0.3, 0.5]), reference, paired=True)
    assert found == pytest.approx(5.363313 * 0.2 / np.sqrt(3), rel=1e-5)


def test_the_detectable_difference_of_a_mean_over_tasks() -> None:
    """Two tasks alike: 8 degrees of freedom for 4, t 2.306004 + 0.888890, and half the variance of the mean."""
    first, second = np.array([[0.1], [0.3], [0.5]]), np.array([[0.2], [0.2], [0.2]])
    expected = 3.194894 * 0.1414214 * 0.8164966 / np.sqrt(2)
    both = np.repeat(first, 2, axis=1), np.repeat(second, 2, axis=1)
    assert statistics.detectable_difference(*both) == pytest.approx(expected, rel=1e-5)
    # a task without spread adds no degrees of freedom and halves the difference
    still = np.hstack([first, second]), np.hstack([second, second])
    alone = statistics.detectable_difference(first, second)
    assert statistics.detectable_difference(*still) == pytest.approx(alone / 2, rel=1e-5)


@pytest.mark.parametrize(("first", "second"), [([0.5], [0.1, 0.2]), ([0.1] * 3, [0.7] * 3), ([0.0] * 2, [0.0] * 2)])
def test_without_a_spread_between_runs_no_difference_is_called_detectable(first: list, second: list) -> None:
    assert np.isnan(statistics.detectable_difference(np.array(first), np.array(second)))
