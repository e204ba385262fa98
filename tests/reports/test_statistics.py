from __future__ import annotations

import numpy as np
import pytest

from reports import statistics
from reports.statistics import METRICS

SCORES = np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5], [0.6, 10.0]])


def test_aggregates_of_a_worked_example() -> None:
    # task means 0.3 and 2.725; the two lowest and highest of eight are cut: (0.2 + 0.3 + 0.4 + 0.5) / 4
    assert statistics.mean(SCORES) == pytest.approx(1.5125)
    assert statistics.median(SCORES) == pytest.approx(1.5125)
    assert statistics.iqm(SCORES) == pytest.approx(0.35)
    # with 10 counted as 1: (0 + .1 + .2 + .3 + .4 + .5 + .6 + 1) / 8 = 0.3875
    assert statistics.optimality_gap(SCORES) == pytest.approx(0.6125)


def test_median_is_over_task_means_not_over_scores() -> None:
    scores = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
    assert statistics.median(scores) == pytest.approx(2 / 3)


def test_a_trailing_axis_of_checkpoints_is_kept() -> None:
    curve = np.stack([SCORES, SCORES * 2], axis=2)
    assert statistics.iqm(curve) == pytest.approx([0.35, 0.7])
    found = statistics.intervals(curve, ["iqm"], reps=500)["iqm"]
    assert found.low.shape == (2,)
    # the same draws at each checkpoint, so doubled scores have a doubled interval
    assert found.high[1] == pytest.approx(2 * found.high[0])


def test_resampled_metrics_equal_the_metric_of_the_gathered_scores() -> None:
    rng = np.random.default_rng(3)
    scores = np.round(rng.random((5, 4)), 1)  # rounding makes ties
    (counts,) = statistics.draws(5, 4, 40, rng)
    for rep in range(40):
        gathered = np.stack([np.repeat(scores[:, task], counts[task, :, rep]) for task in range(4)], axis=1)
        for name, metric in METRICS.items():
            found = metric.resampled(scores, counts)[rep]
            assert found == pytest.approx(float(metric.point(gathered)), abs=1e-12), name


def test_many_runs_do_not_overflow_the_counts() -> None:
    scores = np.linspace(0, 1, 300)[:, None]
    counts = np.zeros((1, 300, 1), np.uint16)
    counts[0, 299, 0] = 300  # the best run, drawn every time
    for metric in METRICS.values():
        assert metric.resampled(scores, counts)[0] == pytest.approx(float(metric.point(np.ones((300, 1)))))


def test_draws_are_uniform_within_each_task_and_independent_between_tasks() -> None:
    (counts,) = statistics.draws(3, 2, 20_000, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 3).all()
    # the number of times a run is drawn is binomial(3, 1/3); four standard errors
    for times, chance in enumerate((8 / 27, 12 / 27, 6 / 27, 1 / 27)):
        share = (counts == times).mean(axis=2)
        assert np.abs(share - chance).max() < 4 * np.sqrt(chance * (1 - chance) / 20_000)
    assert abs(np.corrcoef(counts[0, 0], counts[1, 0])[0, 1]) < 4 / np.sqrt(20_000)


def test_draws_in_chunks_are_as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_CHUNK_BYTES", 24 * 7)
    sizes = [counts.shape for counts in statistics.draws(3, 2, 20, np.random.default_rng(0))]
    assert sizes == [(2, 3, 7), (2, 3, 7), (2, 3, 6)]
    curve = statistics.intervals(np.random.default_rng(1).random((3, 2, 5)), ["mean"], reps=20)["mean"]
    assert np.isfinite(curve.low).all() and (curve.low <= curve.high).all()


@pytest.mark.parametrize("shape", [(5, 10), (3, 1), (2, 4), (10, 3)])
@pytest.mark.parametrize("binary", [False, True])
def test_agrees_with_rliable(shape: tuple[int, int], binary: bool) -> None:
    from rliable import library, metrics

    rng = np.random.default_rng(sum(shape))
    scores = rng.random(shape)
    if binary:
        scores = np.round(scores)
    reps = 2_000
    np.random.seed(0)  # rliable draws from the global generator
    points, ends = library.get_interval_estimates(
        {"a": scores},
        lambda x: np.array(
            [
                metrics.aggregate_mean(x),
                metrics.aggregate_median(x),
                metrics.aggregate_iqm(x),
                metrics.aggregate_optimality_gap(x),
            ]
        ),
        reps=reps,
    )
    table = statistics.aggregate({"a": scores}, reps=50_000)
    np.testing.assert_array_equal(table["estimate"], points["a"])
    ours = statistics.distribution(scores[:, :, None], list(METRICS), 50_000, np.random.default_rng(0))
    slack = 4 * np.sqrt(0.025 * 0.975 * (1 / reps + 1 / 50_000))
    for index, name in enumerate(METRICS):
        low, high = ends["a"][:, index]
        values = ours[name][0]
        near = 1e-9  # a resample's sum may be added up in another order
        assert (values < low - near).mean() < 0.025 + slack and (values <= low + near).mean() > 0.025 - slack, name
        assert (values > high + near).mean() < 0.025 + slack and (values >= high - near).mean() > 0.025 - slack, name


def test_one_run_has_values_but_no_interval() -> None:
    table = statistics.aggregate({"a": np.array([[0.5, 1.0]])}, reps=100)
    assert table["estimate"].tolist() == [0.75, 0.75, 0.75, 0.25]
    assert table["low"].isna().all() and table["high"].isna().all()
    assert set(table["note"]) == {statistics.ONE_RUN}


def test_an_interval_does_not_depend_on_which_methods_stand_beside_it() -> None:
    first, second = np.random.default_rng(0).random((2, 4, 3))
    alone = statistics.aggregate({"b": second}, reps=1_000)
    beside = statistics.aggregate({"a": first, "b": second}, reps=1_000)
    assert beside[beside["method"] == "b"].reset_index(drop=True).equals(alone)
    assert not statistics.aggregate({"b": second}, reps=1_000, seed=1).equals(alone)


def test_a_difference_has_zero_in_its_interval_only_where_the_groups_overlap() -> None:
    low, high = np.array([[0.1], [0.2], [0.3]]), np.array([[0.7], [0.8], [0.9]])
    apart = statistics.difference(high, low, "mean", reps=2_000)
    assert apart.estimate == pytest.approx(0.6) and apart.low > 0
    same = statistics.difference(high, high, "mean", reps=2_000)
    assert same.low < 0 < same.high
    assert np.isnan(statistics.difference(high, low[:1], "mean").low)


@pytest.mark.parametrize("scores", [np.array([[0.1, np.nan]]), np.zeros(3), np.zeros((0, 2))])
def test_scores_that_are_not_a_full_finite_table_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="scores"):
        statistics.intervals(scores, ["mean"])


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


@pytest.mark.parametrize(("first", "second"), [([0.5], [0.1, 0.2]), ([0.1] * 3, [0.7] * 3)])
def test_without_a_spread_between_runs_no_difference_is_called_detectable(first: list, second: list) -> None:
    assert np.isnan(statistics.detectable_difference(np.array(first), np.array(second)))
