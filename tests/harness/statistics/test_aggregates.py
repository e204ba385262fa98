import tracemalloc

import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import METRICS, aggregates

SCORES = np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5], [0.6, 10.0]])


def test_aggregates_of_a_worked_example() -> None:
    # task means 0.3 and 2.725; the two lowest and highest of eight are cut: (0.2 + 0.3 + 0.4 + 0.5) / 4
    assert statistics.mean(SCORES) == pytest.approx(1.5125) and statistics.median(SCORES) == pytest.approx(1.5125)
    assert statistics.iqm(SCORES) == pytest.approx(0.35)
    # with 10 counted as 1: (0 + .1 + .2 + .3 + .4 + .5 + .6 + 1) / 8 = 0.3875
    assert statistics.optimality_gap(SCORES) == pytest.approx(0.6125)
    assert statistics.median(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])) == pytest.approx(2 / 3)


def test_a_trailing_axis_of_checkpoints_is_kept() -> None:
    curve = np.stack([SCORES, SCORES * 2], axis=2)
    assert statistics.iqm(curve) == pytest.approx([0.35, 0.7])
    interval = statistics.intervals(curve, ["iqm"], reps=500)["iqm"]
    assert interval.low.shape == (2,)
    # the same draws at each checkpoint, so doubled scores have a doubled interval
    assert interval.high[1] == pytest.approx(2 * interval.high[0])


def test_the_interval_of_a_worked_example() -> None:
    """Two runs of one task score 0 and 1: the mean of a resample is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    scores = np.array([[0.0], [1.0]])
    wide, narrow = (statistics.intervals(scores, ["mean"], 10_000, level=level)["mean"] for level in (0.95, 0.4))
    assert (wide.estimate, wide.low, wide.high) == (0.5, 0.0, 1.0) and (narrow.low, narrow.high) == (0.5, 0.5)


def test_resampled_metrics_equal_the_metric_of_the_gathered_scores() -> None:
    rng = np.random.default_rng(3)
    scores = np.round(rng.random((5, 4, 2)), 1)  # rounding makes ties
    ((counts, _),) = statistics.draws(5, 4, 40, rng)
    for rep in range(40):
        gathered = np.stack([np.repeat(scores[:, task], counts[task, :, rep], axis=0) for task in range(4)], axis=1)
        for name, metric in METRICS.items():
            assert metric.resampled(scores, counts)[:, rep] == pytest.approx(metric.point(gathered), abs=1e-12), name


def test_many_runs_do_not_overflow_the_counts() -> None:
    scores = np.linspace(0, 1, 300)[:, None, None]
    counts = np.zeros((1, 300, 1), np.uint16)
    counts[0, 299, 0] = 300  # the best run, drawn every time
    for metric in METRICS.values():
        assert metric.resampled(scores, counts)[0] == pytest.approx(metric.point(np.ones((300, 1, 1))))


def test_blocks_of_checkpoints_are_resampled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = np.random.default_rng(1).random((3, 2, 5))
    together = statistics.intervals(curve, ["mean", "iqm"], reps=100)
    monkeypatch.setattr(aggregates, "CHUNK_BYTES", 8 * 100 * 2 * 2)  # two checkpoints
    for name, interval in statistics.intervals(curve, ["mean", "iqm"], reps=100).items():
        np.testing.assert_allclose(interval, together[name], rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "reps"),
    [((100, 100, 1), 5_000), ((5, 10, 2_000), 20_000)],  # 50M counts; 40M means
)
def test_memory_stays_within_bounds(shape: tuple[int, int, int], reps: int) -> None:
    scores = np.random.default_rng(0).random(shape)
    tracemalloc.start()
    statistics.intervals(scores, ["mean"], reps)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 280e6


@pytest.mark.parametrize("scores", [np.array([[0.1, np.nan]]), np.zeros(3), np.zeros((0, 2)), np.zeros((2, 2, 2, 2))])
def test_scores_that_are_not_a_full_finite_table_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="scores"):
        statistics.intervals(scores, ["mean"])
