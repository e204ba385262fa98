import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import ThresholdSteps


def test_the_area_of_a_worked_example() -> None:
    """From 0 up to 1 over one step, then 1 over two: (1/2 + 2) / 3; a constant curve has its own height."""
    scores = np.array([[[0.0, 1.0, 1.0], [0.4, 0.4, 0.4]]])
    assert statistics.area_under_curve(scores, np.array([0, 1, 3])) == pytest.approx(np.array([[2.5 / 3, 0.4]]))
    assert statistics.area_under_curve(scores, np.array([10, 20, 40])) == pytest.approx(np.array([[2.5 / 3, 0.4]]))


def test_steps_to_a_threshold_are_the_first_that_meet_it_up_to_the_end_of_a_run() -> None:
    runs = ([0.0, 0.5, 0.2], [0.6, 0.0, 0.9], [0.0, 0.0, 0.4], [0.0, 0.5, np.nan], [0.1, np.nan, np.nan])
    reached = statistics.steps_to_threshold(np.array(runs)[:, None], np.array([10, 20, 30]), 0.5)
    assert reached.step.tolist() == [[20], [10], [np.inf], [20], [np.inf]]
    assert reached.last.tolist() == [[30], [30], [30], [20], [10]]


def test_censored_runs_of_a_worked_example() -> None:
    """Reached at 10, 20 and 30; one run ended at 20 without, one at 40.

    S falls to 4/5 at 10; at 20 four are observed (one of them for the last time) and one reaches it, 4/5 × 3/4 = 3/5;
    at 30 two are, 3/5 × 1/2 = 3/10. The area to 40 is 10 × (1 + 4/5 + 3/5 + 3/10) = 27.
    """
    reached = ThresholdSteps(
        np.array([[10.0], [20.0], [np.inf], [30.0], [np.inf]]), np.array([[40.0], [40.0], [20.0], [40.0], [40.0]])
    )
    survival = statistics.survival(reached, reps=2_000)
    assert survival.share.estimate == pytest.approx(3 / 5) and survival.median.estimate == 30
    assert survival.restricted_mean.estimate == pytest.approx(27)


def test_runs_that_never_get_there_are_not_dropped() -> None:
    """One of three gets there, at 10: dropping the others would make 10 the median; they count to 100 in the mean."""
    survival = statistics.survival(
        ThresholdSteps(np.array([[10.0], [np.inf], [np.inf]]), np.full((3, 1), 100.0)), reps=50_000
    )
    assert survival.share.estimate == pytest.approx(1 / 3) and survival.median.estimate == np.inf
    assert survival.restricted_mean.estimate == pytest.approx((10 + 100 + 100) / 3)
    # all three draws are the first run in 1 of 27 resamples, none in 8 of 27
    assert (survival.share.low, survival.share.high) == (0.0, 1.0) and (survival.median.low, survival.median.high) == (
        10.0,
        np.inf,
    )
    assert (survival.restricted_mean.low, survival.restricted_mean.high) == (pytest.approx(10), pytest.approx(100))


def test_half_is_reached_where_rounding_hides_it() -> None:
    """Half of 24 runs are there by step 12, but 23/24 × 22/23 × … × 12/13 is above 1/2 in floating point."""
    steps = np.append(np.arange(1.0, 13.0), np.full(12, np.inf))[:, None]
    assert statistics.survival(ThresholdSteps(steps, np.full((24, 1), 99.0)), reps=100).median.estimate == 12


def test_without_censoring_the_restricted_mean_is_the_mean_and_resamples_are_as_drawn() -> None:
    steps = np.random.default_rng(1).integers(1, 20, size=(4, 3)).astype(float)
    survival = statistics.survival(ThresholdSteps(steps, np.full((4, 3), 20.0)), reps=5_000, seed=7)
    np.testing.assert_allclose(
        survival.restricted_mean, statistics.intervals(steps, ["mean"], reps=5_000, seed=7)["mean"]
    )
    assert survival.median.estimate == np.sort(steps.reshape(-1))[5]  # the sixth of twelve


def test_one_run_has_values_but_no_interval() -> None:
    survival = statistics.survival(ThresholdSteps(np.array([[10.0, np.inf]]), np.full((1, 2), 20.0)))
    assert [part.estimate for part in survival] == pytest.approx([0.5, 10, 15])
    assert np.isnan([part[1:] for part in survival]).all()


def test_curves_that_do_not_fit_are_refused() -> None:
    scores = np.zeros((2, 1, 3))
    with pytest.raises(ValueError, match=r"steps have shape \(2,\) beside scores of shape \(2, 1, 3\)"):
        statistics.area_under_curve(scores, np.array([1, 2]))
    with pytest.raises(ValueError, match="rising"):
        statistics.steps_to_threshold(scores, np.array([1, 3, 2]), 0.5)
    with pytest.raises(ValueError, match="two steps"):
        statistics.area_under_curve(scores[:, :, :1], np.array([1]))
    with pytest.raises(ValueError, match="NaN"):
        statistics.area_under_curve(np.full((1, 1, 2), np.nan), np.array([1, 2]))
    for gap in ([np.nan, 1.0, 1.0], [0.0, np.nan, 1.0], [np.nan] * 3):
        with pytest.raises(ValueError, match="without a gap"):
            statistics.steps_to_threshold(np.array([[gap]]), np.array([1, 2, 3]), 0.5)
    with pytest.raises(ValueError, match=r"shape \(2, 3\); expected \[runs, tasks, checkpoints\]"):
        statistics.steps_to_threshold(np.zeros((2, 3)), np.array([1, 2, 3]), 0.5)
