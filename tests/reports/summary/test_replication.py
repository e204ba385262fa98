from __future__ import annotations

import numpy as np
import pytest

from guidebench.harness.interfaces import SUCCESS, Score
from guidebench.harness.statistics import Interval
from guidebench.reports.summary import replication


def interval(low: float, high: float) -> Interval:
    return Interval(*map(np.asarray, ((low + high) / 2, low, high)))


@pytest.mark.parametrize(
    ("wide", "narrow", "verdict"),
    [
        ((-0.1, 0.15), (-0.05, 0.1), "agree within 0.20"),
        ((-0.3, 0.15), (-0.2, 0.1), "cannot tell"),  # an end that touches the margin lies not within it
        ((0.05, 0.3), (0.1, 0.25), "differ"),
        ((0.01, 0.15), (0.02, 0.1), "differ, by less than 0.20"),
        ((-0.15, -0.01), (-0.1, -0.02), "differ, by less than 0.20"),
        ((np.nan, np.nan), (np.nan, np.nan), "cannot tell"),
    ],
)
def test_a_difference_is_asked_for_first_and_agreement_by_the_narrower_interval(
    wide: tuple[float, float], narrow: tuple[float, float], verdict: str
) -> None:
    assert replication.verdict(interval(*wide), interval(*narrow), 0.2) == verdict


@pytest.mark.parametrize(
    ("score", "value", "episodes", "margin"),
    [
        (SUCCESS, 0.5, 20, 0.2),
        (SUCCESS, 0.04, 100, 0.02),
        (SUCCESS, 0.9, 100, 0.05),
        (SUCCESS, 1.0, 10, 0.1),
        (Score("return"), -150.0, 10, 30.0),
    ],
)
def test_the_margin_of_a_rate_shrinks_towards_its_bounds_to_no_less_than_an_episode(
    score: Score, value: float, episodes: int, margin: float
) -> None:
    assert replication.margin(score, value, episodes) == pytest.approx(margin)
