"""rliable's estimates in our forms: the same points, intervals that agree within Monte Carlo error, and a global
generator that is as it was before."""

from collections.abc import Callable

import numpy as np
import pytest
from rliable import library, metrics

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.statistics import with_rliable

REPS, OURS = 300, 4_000
SLACK = 3.5 * np.sqrt(0.025 * 0.975 * (1 / REPS + 1 / OURS))
NEAR = 1e-9  # a resample's sum may be added up in another order


def agrees(ours: Callable[[float], Interval], theirs: Interval) -> None:
    """Check that rliable's interval lies between two of ours, at the levels that the Monte Carlo error of its resamples
    allows."""
    wide, narrow = ours(min(0.95 + 2 * SLACK, 1.0)), ours(0.95 - 2 * SLACK)
    np.testing.assert_allclose(wide.estimate, theirs.estimate, rtol=1e-12)
    assert (wide.low - NEAR <= theirs.low).all() and (theirs.low <= narrow.low + NEAR).all()
    assert (narrow.high - NEAR <= theirs.high).all() and (theirs.high <= wide.high + NEAR).all()


def scores(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).random(shape)


@pytest.mark.parametrize(
    "values",
    [scores(5, 4), np.round(scores(3, 2)), np.round(scores(12, 1)), scores(2, 4), scores(10, 3), -80 * scores(10, 1)],
)
def test_aggregates_agree_with_ours(values: Array) -> None:
    aggregates = with_rliable.aggregates(values, REPS)
    assert list(aggregates) == list(statistics.METRICS)
    for name, theirs in aggregates.items():
        agrees(lambda level, name=name: statistics.intervals(values, [name], OURS, level=level)[name], theirs.interval)


def test_the_error_of_a_mean_is_its_standard_deviation_over_resamples() -> None:
    # of two runs 0 and 1 resampled means are 0, .5, .5, 1: a standard deviation of sqrt(1/8)
    error = with_rliable.aggregates(np.array([[0.0], [1.0]]), 2_000)["mean"].error
    assert error == pytest.approx(np.sqrt(1 / 8), abs=0.02)


@pytest.mark.parametrize(("sizes", "tasks", "digits"), [((5, 5), 2, 1), ((3, 6), 2, 0), ((4, 5), 1, 1)])
def test_improvement_agrees_with_ours(sizes: tuple[int, int], tasks: int, digits: int) -> None:
    first, second = (np.round(scores(size, tasks), digits) for size in sizes)
    theirs = with_rliable.improvement(first, second, REPS)
    agrees(lambda level: statistics.probability_of_improvement(first, second, OURS, level=level), theirs)


@pytest.mark.parametrize("shape", [(5, 4), (6, 1)])
def test_profiles_agree_with_ours(shape: tuple[int, int]) -> None:
    values, thresholds = np.round(scores(*shape), 1), np.linspace(0, 1, 6)  # some scores lie on a threshold
    theirs = with_rliable.profile(values, thresholds, REPS)
    agrees(lambda level: statistics.performance_profile(values, thresholds, OURS, level=level), theirs)


@pytest.mark.parametrize("shape", [(5, 4, 3), (4, 1, 6)])
def test_sample_efficiency_curves_agree_with_ours(shape: tuple[int, int, int]) -> None:
    """The test calls rliable itself, which draws from NumPy's global generator; reports draw curves with our estimates
    alone."""
    curve = np.cumsum(scores(*shape), axis=2) / shape[2]
    before = np.random.get_state()
    np.random.seed(0)
    points, ends = library.get_interval_estimates(
        {"a": curve}, lambda x: np.array([metrics.aggregate_iqm(x[..., at]) for at in range(shape[2])]), reps=REPS
    )
    np.random.set_state(before)
    agrees(
        lambda level: statistics.intervals(curve, ["iqm"], OURS, level=level)["iqm"],
        Interval(points["a"], *ends["a"]),
    )


def test_the_same_seed_gives_the_same_interval_and_the_global_generator_is_left_alone() -> None:
    np.random.seed(3)
    expected = np.random.random(2)
    np.random.seed(3)
    numbers = [np.random.random()]
    first, again, other = (with_rliable.aggregates(scores(5, 4), 100, seed)["mean"] for seed in (1, 1, 2))
    numbers.append(np.random.random())
    assert first == again and first != other and numbers == expected.tolist()


def test_one_run_has_no_interval() -> None:
    single, five = scores(1, 3), scores(5, 3)
    intervals = [
        with_rliable.aggregates(single, 100)["iqm"].interval,
        with_rliable.improvement(single, five, 100),
        with_rliable.profile(single, np.array([0.5]), 100),
    ]
    assert all(
        np.isfinite(interval.estimate).all() and np.isnan([interval.low, interval.high]).all() for interval in intervals
    )


@pytest.mark.parametrize("values", [np.zeros(3), np.array([[0.0], [np.nan]])])
def test_scores_of_another_shape_or_not_finite_are_refused(values: Array) -> None:
    with pytest.raises(ValueError, match="scores"):
        with_rliable.aggregates(values)
