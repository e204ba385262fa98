import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import resampling


def test_draws_are_uniform_within_each_task_and_independent_between_tasks() -> None:
    counts = np.concatenate([counts for counts, _ in statistics.draws(3, 2, 20_000, np.random.default_rng(0))], axis=2)
    assert counts.shape == (2, 3, 20_000) and (counts.sum(axis=1) == 3).all()
    # the number of times a run is drawn is binomial(3, 1/3); four standard errors
    for times, chance in enumerate((8 / 27, 12 / 27, 6 / 27, 1 / 27)):
        assert np.abs((counts == times).mean(axis=2) - chance).max() < 4 * np.sqrt(chance * (1 - chance) / 20_000)
    assert abs(np.corrcoef(counts[0, 0], counts[1, 0])[0, 1]) < 4 / np.sqrt(20_000)


def test_the_few_resamples_of_one_task_are_counted_with_their_chances() -> None:
    """Of two runs: both the first, one of each, both the second, with chances 1/4, 1/2, 1/4."""
    ((counts, times),) = statistics.draws(2, 1, 10_000, np.random.default_rng(0))
    assert counts[0].T.tolist() == [[2, 0], [1, 1], [0, 2]] and times is not None and times.sum() == 10_000
    np.testing.assert_allclose(times / 10_000, [0.25, 0.5, 0.25], atol=4 * np.sqrt(0.25 / 10_000))


def test_counted_resamples_give_the_interval_of_repeated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(5).random((5, 1, 3))
    counted = statistics.intervals(scores, ["iqm"], reps=50_000)["iqm"]
    monkeypatch.setattr(resampling, "comb", lambda *_: 10**9)  # as if there were many
    (first, times), *_ = statistics.draws(5, 1, 50_000, np.random.default_rng(0))
    assert times is None and first.shape[2] > 126
    repeated = statistics.intervals(scores, ["iqm"], reps=50_000)["iqm"]
    np.testing.assert_allclose(counted.low, repeated.low, atol=0.01)
    np.testing.assert_allclose(counted.high, repeated.high, atol=0.01)


def test_draws_come_in_chunks_that_fit_in_memory_and_are_the_same_in_any(monkeypatch: pytest.MonkeyPatch) -> None:
    (all_counts,) = (counts for counts, _ in statistics.draws(3, 2, 20, np.random.default_rng(0)))
    monkeypatch.setattr(resampling, "CHUNK_BYTES", 8 * 6 * 7)
    parts = [counts for counts, _ in statistics.draws(3, 2, 20, np.random.default_rng(0))]
    assert [part.shape for part in parts] == [(2, 3, 7), (2, 3, 7), (2, 3, 6)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=2), all_counts)


def test_the_ends_leave_out_as_many_on_either_side() -> None:
    """Of 40 values at 90 %, two on each side; the same whether values are repeated or counted, infinite or not."""
    values = np.random.default_rng(0).permutation(40).astype(float)
    assert resampling.ends(values, 0.9).tolist() == [2, 37]
    assert resampling.ends(np.where(values > 30, np.inf, values), 0.9).tolist() == [2, np.inf]
    times = np.array([1, 35, 4])  # sorted: 4 of 0.5, 1 of 2 and 35 of 7
    assert resampling.ends(np.array([[2.0, 7.0, 0.5]]), 0.9, times).tolist() == [[0.5], [7.0]]
    assert resampling.ends(np.array([[2.0, 7.0, 0.5]]), 0.75, times).tolist() == [[7.0], [7.0]]
    assert resampling.ends(np.array([[2.0, 7.0, 0.5]]), 0.8, times).tolist() == [[2.0], [7.0]]


def test_values_that_were_counted_are_spread_in_random_order() -> None:
    spread = resampling.spread(np.array([1.0, 2.0]), np.array([300, 100]), np.random.default_rng(0))
    assert sorted(spread) == [1.0] * 300 + [2.0] * 100 and 0 < spread[:300].tolist().count(2.0) < 100


def test_names_have_seeds_of_their_own() -> None:
    assert len({statistics.name_seed(name, seed) for name in ("a", "b") for seed in (0, 1)}) == 4
