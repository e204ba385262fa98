"""Verdicts on claims: findings and levels by hand."""

import numpy as np
import pytest

from guidebench.harness.statistics import Sample, trends, verdicts
from guidebench.harness.statistics.verdicts import ClaimScores, Pair


def sample(*scores: float) -> Sample:
    return Sample(np.array(scores)[:, None])


LOW, MIDDLE, HIGH = (sample(*(np.arange(5) / 100 + shift)) for shift in (0.1, 0.5, 0.8))


def finding(pair: Pair, sign: int = 1, delta: float = 0.2, error: float = 0.05) -> str:
    (verdict,) = verdicts.verdicts([ClaimScores(pair, sign, True)], error, delta)
    return verdict.finding


def test_a_difference_is_shown_in_its_direction_or_against_it() -> None:
    """Five runs above five: p = 2 / 252."""
    (verdict,) = verdicts.verdicts([ClaimScores(Pair(HIGH, LOW), 1, True)], 0.05, 0.2)
    assert verdict is not None and verdict.contrast.p == pytest.approx(2 / 252)
    assert verdict.finding == "shown" and verdict.contrast.difference.estimate == pytest.approx(0.7)
    assert verdict.contrast.difference.low > 0 and verdict.differs_from_placebo is None
    assert finding(Pair(LOW, HIGH)) == "shown, against the direction expected"
    assert finding(Pair(LOW, HIGH), sign=-1) == "shown"


def test_information_is_shown_only_beside_the_placebo() -> None:
    assert finding(Pair(HIGH, LOW, placebo=MIDDLE)) == "shown"
    assert finding(Pair(HIGH, LOW, placebo=HIGH)) == "the mechanism, not the guidance, helps"
    assert finding(Pair(MIDDLE, LOW, placebo=HIGH)) == "the mechanism, not the guidance, helps", "a better placebo"
    assert finding(Pair(LOW, HIGH, placebo=LOW)) == "shown, against the direction expected"


def test_equal_rows_differ_by_less_than_delta_and_noisy_ones_are_open() -> None:
    assert finding(Pair(LOW, LOW)) == "no difference of δ"
    noisy = sample(0.0, 0.2, 0.5, 0.7, 1.0)
    assert finding(Pair(noisy, noisy)) == "not shown"
    assert finding(Pair(LOW, LOW), delta=0.005) == "not shown", "the runs of one row spread more than this"


def test_primary_claims_divide_the_error_and_secondary_ones_share_it_by_holm() -> None:
    p_values = np.array([0.02, 0.03, 0.01, 0.04, np.nan])
    is_primary = np.array([True, True, False, False, False])
    # secondary: .01 < .05 / 3, so .04 is compared with .05 / 2 and is not rejected; the claim without scores counts
    assert verdicts.errors(p_values, is_primary, 0.05).tolist() == pytest.approx(
        [0.05 / 2, 0.05 / 2, 0.05 / 3, 0.05 / 2, 0.05 / 2]
    )
    two = [ClaimScores(Pair(HIGH, LOW), 1, True), ClaimScores(None, 1, True)]
    verdict, missing = verdicts.verdicts(two, 0.0294, 0.2)
    assert missing is None and verdict is not None and verdict.error == pytest.approx(0.0147)
    # p = 2 / 252 = .0079 is below .0294 / 2, but not below .0294 / 4
    assert verdict.finding == "shown"
    assert verdicts.verdicts([*two, *two], 0.0294, 0.2)[0].finding != "shown"  # type: ignore[union-attr]


def test_a_trend_is_a_change_over_the_range_of_values() -> None:
    runs = [sample(0.0, 0.1), sample(0.2, 0.3), sample(0.4, 0.5)]
    claim = ClaimScores(trends.changes(np.array([0.0, 5.0, 10.0]), runs), 1, True, (-1.0, 1.0))
    (verdict,) = verdicts.verdicts([claim], 0.05, 0.2)
    assert verdict is not None and verdict.finding == "shown" and verdict.contrast.p == pytest.approx(2 / 90)
    assert verdict.contrast.difference.estimate == pytest.approx(0.4)
    (against,) = verdicts.verdicts([claim._replace(sign=-1)], 0.05, 0.2)
    assert against is not None and against.finding == "shown, against the direction expected"
