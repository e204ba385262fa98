"""The interval of a ratio holds the factors that the permutation test does not reject."""

import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import Sample, permutation, ratio


def sample(seed: int, runs: int = 5, tasks: int = 1, level: float = 0.5) -> Sample:
    rng = np.random.default_rng(seed)
    return Sample(np.clip(rng.normal(level, 0.12, (runs, tasks)), 0.01, 1))


@pytest.mark.parametrize(("runs", "tasks"), [(4, 1), (5, 1), (4, 2)])
def test_factors_inside_are_accepted_by_the_permutation_test_and_those_outside_rejected(runs: int, tasks: int) -> None:
    first, second = sample(1, runs, tasks, 0.7), sample(2, runs, tasks, 0.4)
    interval = ratio(first, second)
    low, point, high = (float(interval.low), float(interval.estimate), float(interval.high))
    assert low < point < high and point == pytest.approx(first.value() / second.value())
    for factor, accepted in ((low * 0.999, False), (low * 1.001, True), (high * 0.999, True), (high * 1.001, False)):
        p = permutation.p_value(first.scores, factor * second.scores)
        assert (p >= 0.05 - 1e-9) == accepted, factor


def test_it_leaves_out_one_exactly_where_means_differ() -> None:
    for seed in range(12):
        first, second = sample(seed, 5, 1, 0.6), sample(seed + 100, 5, 1, 0.45)
        interval = ratio(first, second)
        assert (interval.low > 1 or interval.high < 1) == (statistics.p_value(first, second) < 0.05)


def test_it_holds_the_true_ratio_in_nineteen_of_twenty_studies() -> None:
    rng, covered, studies = np.random.default_rng(3), 0, 100
    for _ in range(studies):
        base = rng.gamma(8, 0.05, (2, 5, 1))
        interval = ratio(Sample(1.6 * base[0]), Sample(base[1]))
        covered += bool(interval.low <= 1.6 <= interval.high)
    assert covered / studies > 0.92


def test_episodes_widen_it_and_what_is_undefined_or_cannot_be_told_has_no_ends() -> None:
    first, second = sample(1, level=0.7), sample(2, level=0.4)
    alone = ratio(first, second)
    noisy = [row._replace(variances=np.full(row.shape, 0.08)) for row in (first, second)]
    wide = ratio(*noisy)
    assert wide.low < alone.low and wide.high > alone.high
    assert np.isnan(ratio(sample(1, 3), sample(2, 3)).low), "three runs are too few for an interval"
    assert np.isnan(ratio(first, Sample(np.zeros((5, 1)))).estimate)
    nothing = ratio(Sample(np.zeros((5, 1))), second)
    assert (float(nothing.estimate), float(nothing.low)) == (0.0, 0.0) and 0 < nothing.high < 1
    with pytest.raises(ValueError, match="not negative"):
        ratio(Sample(np.array([[-1.0], [1.0]])), second)
