"""The permutation test: worked examples, intervals by inversion, and what few runs can show."""

from collections.abc import Iterator

import numpy as np
import pytest

from guidebench.harness.statistics import can_tell, permutation
from guidebench.harness.statistics.resampling import Array

METRICS = ("mean", "iqm", "median")


def runs(*scores: float) -> Array:
    """Return scores of runs of one task, [runs, 1]."""
    return np.array(scores)[:, None]


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let relabellings be drawn at random from twenty on."""
    permutation.relabellings.cache_clear()
    monkeypatch.setattr(permutation, "RELABELLINGS", 19)
    yield
    permutation.relabellings.cache_clear()


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        (runs(1, 1, 1), runs(0, 0, 0), 2 / 20),
        (runs(1, 1, 0.94), runs(0, 0, 0), 2 / 20),  # a little spread is no more evidence than none
        (runs(*[1] * 5), runs(*[0] * 5), 2 / 252),
        (runs(2, 3), runs(1), 2 / 3),  # |1.5| of {2, 3} beside 1, and of {1, 2} beside 3; {1, 3} beside 2: 0
        (runs(1, 1, 0), runs(1, 0, 0), 1),  # {1 1 1} 1 way, {1 1 0} 9, {1 0 0} 9, {0 0 0} 1: all as far or further
        (runs(1, 1, 1, 0), runs(1, 0, 0, 0), (1 + 16 + 16 + 1) / 70),
        (runs(0.3, 0.3), runs(0.3, 0.3), 1),
        (np.ones((2, 2)), np.zeros((2, 2)), 2 / 36),  # six relabellings in each of two tasks
        (np.array([[1, 0], [1, 0]]), np.array([[0, 1], [0, 1]]), 1),  # better by one and worse by one
    ],
)
def test_the_p_value_of_a_worked_example(first: Array, second: Array, p: float) -> None:
    for sign in (1, -1):
        assert permutation.p_value(sign * first, sign * second) == pytest.approx(p)
    assert permutation.p_value(second, first) == pytest.approx(p)


@pytest.mark.parametrize("metric", METRICS)
def test_an_aggregate_of_runs_that_are_all_better_has_the_smallest_p(metric: str) -> None:
    """Of {5, 6, 7, 8} beside {1, 2, 3, 4} the two middle ones have the same mean after 5 and 4 change places, which is
    less extreme by the means."""
    first, second = runs(5, 6, 7, 8), runs(1, 2, 3, 4)
    assert permutation.p_value(first, second, metric) == pytest.approx(2 / 70)
    assert permutation.smallest_p(4, 4) == pytest.approx(2 / 70)


def test_equal_aggregates_have_p_1_whatever_else_differs() -> None:
    first = np.ones((5, 4))
    second = np.where(np.arange(20).reshape(5, 4) < 5, 0.0, 1.0)  # five of twenty, which the IQM leaves out
    assert permutation.p_value(first, second, "iqm") == 1 and permutation.p_value(first, second) < 0.1


def test_many_pairs_at_once_have_the_p_values_of_each() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (4, 30)) / 4, rng.integers(0, 5, (6, 30)) / 4
    p_values = permutation.p_of_means(first, second)
    for index in range(30):
        gaps, means = permutation._differences(first[:, index : index + 1], second[:, index : index + 1], "mean")
        assert p_values[index] == pytest.approx(permutation._p(gaps, means, 1e-9))


def test_it_is_scipys_test_of_independent_samples() -> None:
    from scipy import stats

    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(5, 1)) + 1, rng.normal(size=(5, 1))
    reference = stats.permutation_test(
        (first[:, 0], second[:, 0]), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf
    )
    assert permutation.p_value(first, second) == pytest.approx(reference.pvalue)


def test_drawn_relabellings_count_the_observed_one_and_are_the_same_each_time(few_drawn: None) -> None:
    """Of 1 + 10,000 the observed one is as extreme as itself, and its mirror image is 1 in 20 of those drawn."""
    first, second = runs(7, 8, 9), runs(1, 2, 3)
    p = permutation.p_value(first, second)
    labels = permutation.relabellings(3, 3)
    extreme = (labels.first[0, :3].sum(axis=0) % 3 == 0).sum()
    assert not labels.exact and labels.first.shape == (1, 6, 10_001) and (labels.first.sum(axis=1) == 3).all()
    assert p == pytest.approx(extreme / 10_001) and p == pytest.approx(0.1, abs=0.01)
    assert p == permutation.p_value(first, second)


def test_tasks_are_relabelled_independently(few_drawn: None) -> None:
    labels = permutation.relabellings(2, 2, 2).first[:, 0, 1:].astype(float)
    assert abs(np.corrcoef(labels)[0, 1]) < 0.03 and permutation.count(2, 2, 2) == 36


@pytest.mark.parametrize(
    ("metric", "shape"),
    [(metric, shape) for metric in METRICS for shape in ((5, 5, 1), (4, 6, 1), (9, 10, 1))] + [("mean", (3, 3, 2))],
)
def test_the_interval_holds_the_shifts_that_are_not_rejected(metric: str, shape: tuple[int, int, int]) -> None:
    n, m, tasks = shape
    rng = np.random.default_rng(n + m)
    first, second = rng.normal(size=(n, tasks)) + 0.5, rng.normal(size=(m, tasks))
    low, high = permutation.interval(first, second, metric)
    for end, inward in ((low, 1), (high, -1)):
        assert permutation.p_value(first - end - 1e-6 * inward, second, metric) >= 0.05
        assert permutation.p_value(first - end + 1e-6 * inward, second, metric) < 0.05


@pytest.mark.parametrize("metric", ["mean", "iqm"])
def test_an_interval_leaves_out_0_exactly_where_p_is_below_five_percent(metric: str) -> None:
    rng = np.random.default_rng(4)
    rejected = 0
    for study in range(60):
        shape = 4 + study % 3, 1
        first, second = np.round(rng.random(shape) + study % 4 / 4, 1), np.round(rng.random((4, 1)), 1)
        low, high = permutation.interval(first, second, metric)
        p = permutation.p_value(first, second, metric)
        assert (low > 0 or high < 0) == (p < 0.05)
        rejected += p < 0.05
    assert 15 < rejected < 55


def test_an_interval_of_more_than_95_percent_is_unbounded_where_no_shift_can_be_rejected() -> None:
    first, second = runs(5, 6, 7, 8), runs(1, 2, 3, 4)
    assert np.isinf(permutation.interval(first, second, "mean", 0.98)).all()
    assert np.isinf(permutation.interval(first, second, "iqm", 0.98)).all()
    assert np.isfinite(permutation.interval(first, second, "mean", 0.95)).all()


def test_the_one_sided_test_of_a_margin() -> None:
    """That {1, 2, 3} exceeds {1, 2, 3} by 10: less it, every run is below all others, 1 relabelling in 20."""
    same = runs(1, 2, 3)
    assert permutation.one_sided_p(same, same, 10) == pytest.approx(1 / 20)
    assert permutation.one_sided_p(same, same, -10) == 1


def test_four_runs_beside_four_are_the_fewest_that_can_tell() -> None:
    decidable = {(n, m): can_tell(n, m) for n, m in ((3, 3), (2, 4), (2, 5), (3, 4), (4, 4), (1, 19))}
    assert decidable == {(3, 3): False, (2, 4): False, (2, 5): True, (3, 4): True, (4, 4): True, (1, 19): False}
    assert can_tell(3, 3, tasks=2)


def test_so_many_pairs_can_be_separated_at_once() -> None:
    assert [permutation.separable_pairs(runs) for runs in (3, 4, 5, 6)] == [0, 1, 6, 23]
    assert permutation.separable_pairs(10) == 500, "with drawn relabellings p is at least 1 / 10,001"
