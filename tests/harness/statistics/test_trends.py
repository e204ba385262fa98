"""The permutation test of a least-squares slope: p, interval and equivalence by hand, and its error by simulation."""

import numpy as np
import pytest
from scipy import stats

from guidebench.harness.statistics import Sample, trends
from guidebench.harness.statistics.resampling import rejects

POSITIONS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


def groups(*runs: list[float]) -> list[Sample]:
    return [Sample(np.array(scores, float)[:, None]) for scores in runs]


def test_two_of_ninety_relabellings_are_as_steep_as_a_perfect_order() -> None:
    """Runs 0 to 5 at values 0, 1, 2: Σ (x - 1) y = -1 + 9 = 8 over Σ (x - 1)² = 4 is a slope of 2, a change of 4 over
    the range. Only the observed assignment and its mirror image have |Σ| = 8."""
    of = trends.changes(np.arange(3.0), groups([0, 1], [2, 3], [4, 5]))
    assert of.changes[0] == pytest.approx(4) and len(of.changes) == trends.count([2, 2, 2]) == 90
    assert trends.p_value(of) == pytest.approx(2 / 90)
    falling = trends.changes(np.arange(3.0), groups([4, 5], [2, 3], [0, 1]))
    assert trends.interval(falling).estimate == pytest.approx(-4) and trends.p_value(falling) == pytest.approx(2 / 90)
    assert trends.p_value(trends.changes(np.arange(3.0), groups([0, 1], [5, 5], [0, 1]))) == 1


def test_relabellings_are_each_once_with_groups_of_their_sizes_and_the_observed_one_first() -> None:
    labels = trends.relabellings((1, 3, 2))
    assert len(np.unique(labels, axis=0)) == len(labels) == trends.count([1, 3, 2]) == 60
    assert labels[0].tolist() == [0, 1, 1, 1, 2, 2]
    assert all(np.bincount(row).tolist() == [1, 3, 2] for row in labels)
    drawn = trends.relabellings((5,) * 5)
    assert drawn.shape == (10_001, 25) and (np.sort(drawn, axis=1) == drawn[0]).all()


def test_an_interval_holds_the_changes_that_are_not_rejected() -> None:
    rng = np.random.default_rng(0)
    positions = np.array([0.0, 1.0, 3.0])  # not symmetric about their mean
    scores = [rng.normal(0.2 * position, 0.1, 3) for position in positions]
    low, high = (float(end) for end in trends.interval(trends.changes(positions, groups(*map(list, scores))))[1:])

    def p(change: float) -> float:
        shifted = [list(of - change * position / 3) for of, position in zip(scores, positions, strict=True)]
        return trends.p_value(trends.changes(positions, groups(*shifted)))

    assert 0 < low < 0.6 < high and all(rejects(p(change)) for change in (low - 1e-3, high + 1e-3, 0.0))
    assert not any(rejects(p(change)) for change in np.linspace(low + 1e-3, high - 1e-3, 20))


def test_few_runs_cannot_tell_and_few_episodes_widen() -> None:
    """With one run at each of three values a perfect order is 2 of 6 relabellings."""
    of = trends.changes(np.arange(3.0), groups([0], [1], [2]))
    assert trends.p_value(of) == pytest.approx(2 / 6) and np.isnan(trends.interval(of).low)
    runs = groups([0, 1], [2, 3], [4, 5])
    noisy = [run._replace(variances=np.full(run.scores.shape, 4.0)) for run in runs]
    # change 4 with a standard error of sqrt(4 runs × (1/4)² × 4) × 2 = 2: z = 2
    of = trends.changes(np.arange(3.0), noisy)
    assert of.error == pytest.approx(2) and trends.p_value(of) == pytest.approx(2 * stats.norm.sf(2))
    assert trends.interval(of).low == pytest.approx(4 - 2 * stats.norm.isf(0.025))


def test_a_level_line_lies_within_a_margin_and_a_steep_one_does_not() -> None:
    """The smallest one-sided p of runs is that of the mirror images beyond the margin: 1 of 90."""
    flat = groups([0.0, 0.01], [0.01, 0.0], [0.0, 0.01])
    assert trends.equivalence_p(trends.changes(np.arange(3.0), flat), 1.0) == pytest.approx(1 / 90)
    steep = trends.changes(np.arange(3.0), groups([0, 1], [2, 3], [4, 5]))
    assert trends.equivalence_p(steep, 3.0) > 0.5


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="two different ones"):
        trends.changes(np.zeros(2), groups([0, 1], [1, 2]))
    with pytest.raises(ValueError, match="expected one task"):
        trends.changes(np.arange(2.0), [Sample(np.zeros((2, 2)))] * 2)
    with pytest.raises(ValueError, match="margin is 0"):
        trends.equivalence_p(trends.changes(np.arange(2.0), groups([0, 1], [1, 2])), 0)


def test_a_setting_without_effect_has_a_trend_in_one_study_of_twenty() -> None:
    """1,000 studies of five values with four seeds each, whose success rates of 20 episodes spread between seeds.
    Bounds: the central 99 % of a binomial distribution at 5 %."""
    rng = np.random.default_rng(46)
    rates = rng.binomial(20, rng.beta(2, 2, (1_000, 5, 4))) / 20
    p_values = [trends.p_value(trends.changes(POSITIONS, groups(*study.tolist()))) for study in rates]
    least, most = stats.binom.interval(0.99, 1_000, 0.05)
    assert least <= np.count_nonzero(rejects(np.array(p_values))) <= most
