"""What docs/reports.md states of errors, with fewer studies: 3,000 of each, whose 5 % have a standard error of .4 %."""

import numpy as np
import pytest

from benchmarks import error_rates
from guidebench.reports import statistics

STUDIES = 3_000
ALLOWED = 0.05 + 3.5 * (0.05 * 0.95 / STUDIES) ** 0.5


@pytest.mark.parametrize("kind", error_rates.KINDS)
@pytest.mark.parametrize("paired", [True, False])
def test_many_studies_at_once_have_the_p_values_of_each(kind: str, paired: bool) -> None:
    draw, rng = error_rates.KINDS[kind], np.random.default_rng(0)
    first, second = draw(rng, (4, 25)), draw(rng, (4 if paired else 7, 25))
    found = error_rates.p_values(first, second, paired)
    assert found == pytest.approx([statistics.t_test(*pair, paired) for pair in zip(first.T, second.T, strict=True)])


@pytest.mark.parametrize("kind", error_rates.HELD)
@pytest.mark.parametrize("runs", [3, 10])
@pytest.mark.parametrize("paired", [True, False])
def test_some_row_of_equal_methods_is_unmarked_in_at_most_five_percent(kind: str, runs: int, paired: bool) -> None:
    for methods in (2, 4, 6):
        assert error_rates.unmarked(kind, methods, runs, paired, STUDIES) <= ALLOWED


@pytest.mark.parametrize("kind", error_rates.HELD)
@pytest.mark.parametrize("runs", [3, 10])
@pytest.mark.parametrize("paired", [True, False])
def test_some_interval_of_four_equal_methods_leaves_out_0_in_at_most_five_percent(
    kind: str, runs: int, paired: bool
) -> None:
    assert error_rates.left_out(kind, 4, runs, paired, STUDIES) <= ALLOWED


def test_the_intervals_of_equal_methods_leave_out_0_as_often_as_the_simulation_says() -> None:
    """The same studies through `statistics.compare`, one by one."""
    scores = error_rates.KINDS["normal"](np.random.default_rng(0), (5, 3, 150))
    wrong = 0
    for study in range(150):
        others = {str(index): scores[index, :, study, None] for index in range(1, 5)}
        found = statistics.compare(scores[0, :, study, None], others, paired=True)
        wrong += any(each.adjusted.low > 0 or each.adjusted.high < 0 for each in found.values())
    assert wrong / 150 == error_rates.left_out("normal", 4, 3, True, 150)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 10.0])
def test_ten_seeds_beside_three_of_another_spread_differ_in_little_more_than_five_percent(deviation: float) -> None:
    """A t test of pooled variances calls equal means different in more than a third of these studies."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(10, STUDIES)), deviation * rng.normal(size=(3, STUDIES))
    assert np.mean(error_rates.p_values(first, second, False) < 0.05) < 0.075


def test_a_method_that_is_better_is_found() -> None:
    """Power, so that nothing holds its error by telling nothing apart: three standard deviations, five seeds."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(5, STUDIES)) + 3, rng.normal(size=(5, STUDIES))
    assert np.mean(error_rates.p_values(first, second, False) < 0.05 / 3) > 0.8
