import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import resampling
from guidebench.harness.statistics.improvement import _improvement
from guidebench.harness.statistics.resampling import draw_resamples


def test_the_probability_of_a_worked_example() -> None:
    """1 beats one of 2, 3, 0; 3 beats two and ties with one: 3.5 of 6 pairs. On the second task all tie."""
    first, second = np.array([[1.0], [3.0]]), np.array([[2.0], [3.0], [0.0]])
    assert statistics.probability_of_improvement(first, second, reps=200).estimate == pytest.approx(3.5 / 6)
    assert statistics.probability_of_improvement(second, first, reps=200).estimate == pytest.approx(2.5 / 6)
    both = np.hstack([first, [[7.0], [7.0]]]), np.hstack([second, [[7.0]] * 3])
    assert statistics.probability_of_improvement(*both, reps=200).estimate == pytest.approx((3.5 / 6 + 0.5) / 2)


def test_the_interval_of_a_worked_example_and_none_of_one_run() -> None:
    """0 and 1 against .5 twice: the share of 1 among two draws, 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    first, second = np.array([[0.0], [1.0]]), np.array([[0.5], [0.5]])
    for level, expected in ((0.95, (0.5, 0.0, 1.0)), (0.4, (0.5, 0.5, 0.5))):
        assert tuple(statistics.probability_of_improvement(first, second, reps=5_000, level=level)) == expected
    probability = statistics.probability_of_improvement(np.ones((1, 2)), np.zeros((3, 2)))
    assert probability.estimate == 1 and np.isnan(probability[1:]).all()


def test_resamples_are_those_of_the_gathered_scores() -> None:
    rng = np.random.default_rng(0)
    first, second = np.round(rng.random((4, 3)), 1), np.round(rng.random((6, 3)), 1)  # rounding makes ties
    first_draws, second_draws = draw_resamples(4, 3, 30, rng), draw_resamples(6, 3, 30, rng)
    probabilities = _improvement(first, second, first_draws, second_draws)
    for rep in range(30):
        won = []
        for task in range(3):
            a = np.repeat(first[:, task], first_draws[task, :, rep])[:, None]
            b = np.repeat(second[:, task], second_draws[task, :, rep])
            won.append(((a > b) + 0.5 * (a == b)).mean())
        assert probabilities[rep] == pytest.approx(np.mean(won))


def test_every_pair_is_compared_and_a_method_is_drawn_alike_beside_any_others(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (np.random.default_rng(seed).random((runs, 3)) for seed, runs in ((0, 4), (1, 6), (2, 1)))
    improvements = statistics.improvements({"a": a, "b": b, "c": c}, reps=500)
    assert (
        len(improvements) == 6
        and improvements["a", "b"].estimate == statistics.probability_of_improvement(a, b, reps=10).estimate
    )
    for pair in ("ab", "ba"):
        forth, back = improvements[pair[0], pair[1]], improvements[pair[1], pair[0]]
        np.testing.assert_allclose(forth, [1 - back.estimate, 1 - back.high, 1 - back.low])
        assert np.isnan(improvements[pair[0], "c"].low) and np.isnan(improvements["c", pair[0]].high)
    monkeypatch.setattr(resampling, "CHUNK_BYTES", 8 * 30 * 7)  # other chunks than beside c
    assert statistics.improvements({"a": a, "b": b}, reps=500)["a", "b"] == improvements["a", "b"]


def test_scores_of_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2, 2\) and \(2, 1\)"):
        statistics.probability_of_improvement(np.zeros((2, 2)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="NaN"):
        statistics.probability_of_improvement(np.full((2, 1), np.nan), np.zeros((2, 1)))
