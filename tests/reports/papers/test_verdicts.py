"""What "reproduced" means, and what keeps a number from being compared."""

from __future__ import annotations

import numpy as np
import pytest

from reports.papers import verdicts
from reports.statistics import Interval


def between(low: float, high: float) -> Interval:
    return Interval(np.asarray((low + high) / 2), np.asarray(low), np.asarray(high))


@pytest.mark.parametrize(
    ("published", "ours", "difference", "expected"),
    [
        (0.8, between(0.7, 0.9), False, True),
        (0.9, between(0.7, 0.9), False, True),
        (0.95, between(0.7, 0.9), False, False),
        (61.3, between(2, 10), True, True),  # a gain is borne out by its side of zero, not by its size
        (61.3, between(-2, 100), True, False),
        (-5.0, between(-10, -1), True, True),
        (-5.0, between(1, 10), True, False),
        (0.0, between(-3, 3), True, True),  # published as no difference
        (0.0, between(1, 3), True, False),
    ],
)
def test_a_value_must_be_covered_and_a_difference_be_on_its_side(
    published: float, ours: Interval, difference: bool, expected: bool
) -> None:
    assert verdicts.agrees(published, ours, difference) is expected
    found = verdicts.verdict(published, ours, difference, ())
    assert found == (verdicts.REPRODUCED if expected else verdicts.NOT_REPRODUCED)


def test_any_reason_makes_it_not_comparable_whatever_the_numbers_say() -> None:
    assert verdicts.verdict(0.8, between(0.7, 0.9), False, ("profile quick",)) == verdicts.NOT_COMPARABLE
