"""Decimals follow from intervals, by one rule."""

import numpy as np
import pytest

from guidebench.harness.statistics import Interval
from guidebench.reports.summary import scoring


def interval(*numbers: float) -> Interval:
    return Interval(*map(np.asarray, numbers))


@pytest.mark.parametrize(
    ("numbers", "digits"),
    [
        ((0.54, 0.19, 0.75), 2),
        ((0.5, 0.0, 1.0), 2),
        ((0.953, 0.921, 0.985), 2),
        ((0.991, 0.985, 0.997), 3),
        ((59.31, 50.0, 70.0), 0),
        ((-160.8, -161.2, -160.2), 1),
        ((405.058, 316.065, 494.051), 0),
        ((4059.2, 3100.0, 5000.0), 0),
        ((0.0102, 0.0100, 0.0104), 4),
        ((1.0, 1.0, 1.0), 2),
        ((412.5, np.nan, np.nan), 1),
    ],
)
def test_a_number_has_the_decimals_that_its_interval_justifies(numbers: tuple[float, ...], digits: int) -> None:
    assert scoring.digits([interval(*numbers)]) == digits


def test_a_column_has_the_decimals_of_its_widest_interval_and_plain_numbers_those_of_their_size() -> None:
    column = [interval(50.0, 10.0, 90.0), interval(50.0, 49.0, 51.0), interval(50.0, 49.99, 50.01)]
    assert [scoring.digits(column[place:]) for place in range(3)] == [0, 1, 3]
    assert [scoring.digits([size]) for size in (0.1, 99.0, 500.0, 1000.0, float("nan"))] == [2, 2, 1, 0, 2]
