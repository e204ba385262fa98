"""The number of seeds a comparison needs, estimated from the seeds at hand."""

import numpy as np
import pytest

from guidebench.harness.statistics import permutation, power, seeds_needed
from guidebench.harness.statistics.resampling import Array, rejects


def exact(first: Array, second: Array, largest: int = 9) -> float:
    """Return the number of seeds that the exact test needs on the same resampled studies; infinity above `largest`."""
    resampled = power._resampled(first, second)
    for runs in range(4, largest + 1):
        if np.mean(rejects(permutation.p_of_means(*(side[:runs, :500] for side in resampled)))) >= power.POWER:
            return runs
    return np.inf


def test_seeds_that_are_all_better_need_the_fewest_that_can_tell() -> None:
    assert seeds_needed(np.ones(3), np.zeros(3)) == 4, "three against three seeds never differ significantly"
    assert seeds_needed(np.ones(3), np.ones(3)) == np.inf, "equal seeds never differ significantly"
    assert np.isnan(seeds_needed(np.ones(1), np.zeros(3)))


def test_of_a_normal_difference_it_is_the_number_of_the_t_tests_power() -> None:
    """A gap of one standard deviation needs 17 a side for a power of 80 % (two-sided t test at 5 %); 1.5 needs 9."""
    spread = np.array([-1.5, -0.5, 0.5, 1.5]) / 1.25**0.5  # a deviation of 1, about a mean of 0
    assert seeds_needed(spread + 1, spread) == pytest.approx(17, abs=2)
    assert seeds_needed(spread + 1.5, spread) == pytest.approx(9, abs=1)
    assert seeds_needed(spread + 0.3, spread) == np.inf


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_test_and_the_t_test_agree_within_two_seeds(seed: int) -> None:
    """Differences that need about eight seeds, where the exact test gives way to the t test."""
    rng = np.random.default_rng(seed)
    first, second = (np.round(rng.normal(size=5), 2) for _ in range(2))
    first = (first - first.mean()) / first.std() + 1.7
    second = (second - second.mean()) / second.std()
    by_t = np.flatnonzero(power.t_test_power(*power._resampled(first, second)) >= power.POWER)[0] + 1
    assert abs(by_t - exact(first, second)) <= 2 >= abs(seeds_needed(first, second) - by_t)


def test_the_power_of_the_t_test_is_that_of_each_study() -> None:
    from scipy import stats

    first, second = power._resampled(np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 5.0]))
    few = [stats.ttest_ind(first[:6, study], second[:6, study]).pvalue < 0.05 for study in range(300)]
    assert power.t_test_power(first[:6, :300], second[:6, :300])[5] == pytest.approx(np.mean(few))
    assert power.t_test_power(first, second)[0] == 0


def test_shares_do_not_depend_on_how_many_studies_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cumulative sums have the bits of NumPy's, and sets of relabellings are counted in parts."""
    first, second = power._resampled(np.array([0.3, 1.1, 2.7]), np.array([0.2, 0.4, 0.9, 1.6]))
    assert np.array_equal(power._cumulative(first), first.cumsum(axis=0))
    by_task = [side.reshape(100, 2, 1000) for side in (first, second)]

    def shares() -> list[Array]:
        parts = power.t_test_power(first, second), power.normal_power(*by_task)
        return [*parts, permutation.p_of_means(first[:5], second[:5])]

    by_default = shares()
    for numbers, sums in ((1 << 30, 1 << 30), (700, 2_000 * 7)):
        monkeypatch.setattr(power, "_NUMBERS", numbers)
        monkeypatch.setattr(permutation, "_SUMS", sums)
        assert all(map(np.array_equal, by_default, shares()))
    assert 0 < by_default[0][40] < 1 and 0 < by_default[1][10] < 1 and len(np.unique(by_default[2])) > 50


def scattered_scores(seed: int, tasks: int, gap: float) -> Array:
    return np.random.default_rng(seed).normal(gap, 1, (6, tasks))


def test_over_tasks_the_fewest_seeds_that_can_tell_suffice_where_all_are_better() -> None:
    high, low = np.ones((3, 2)), np.zeros((3, 2))
    assert not permutation.can_tell(2, 2, 2) and permutation.can_tell(3, 3, 2)
    assert seeds_needed(high, low) == 3 and seeds_needed(high, high) == np.inf
    assert seeds_needed(np.ones((3, 6)), np.zeros((3, 6))) == 2, "2 of 6 ** 6 relabellings are as extreme"
    assert seeds_needed(high[:, :1], low[:, :1]) == seeds_needed(high[:, 0], low[:, 0]) == 4


@pytest.mark.parametrize(("tasks", "runs"), [(2, 3), (2, 4), (3, 3), (4, 2)])
def test_over_tasks_the_normal_test_rejects_about_as_often_as_all_relabellings(tasks: int, runs: int) -> None:
    rng = np.random.default_rng(tasks)
    first, second = rng.normal(1.1, 1, (runs, tasks, 150)), rng.normal(0, 1, (runs, tasks, 150))
    exact_share = power.exact_power(first, second)
    by_hand = [permutation.p_value(first[:, :, study], second[:, :, study]) < 0.05 for study in range(20)]
    assert power.exact_power(first[:, :, :20], second[:, :, :20]) == np.mean(by_hand)
    assert power.normal_power(first, second)[runs - 1] == pytest.approx(exact_share, abs=0.08)


def test_more_tasks_of_the_same_gap_need_fewer_seeds_and_a_table_waits_little_for_them() -> None:
    counts = [seeds_needed(scattered_scores(0, tasks, 0.9), scattered_scores(1, tasks, 0)) for tasks in (2, 5, 10)]
    assert counts == sorted(counts, reverse=True) and 2 <= counts[-1] < counts[0] < 40
    assert np.isnan(
        seeds_needed(scattered_scores(0, 31, 1), scattered_scores(1, 31, 0))
    ) and "30 tasks" in power.unknown(6, 6, 31)
