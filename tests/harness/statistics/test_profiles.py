import numpy as np
import pytest

from guidebench.harness import statistics


def test_the_profile_of_a_worked_example() -> None:
    """A score counts if it is strictly above the threshold; thresholds may be in any order."""
    profile = statistics.performance_profile(np.array([[0.0, 0.5], [0.5, 1.0]]), [0.5, -1, 0, 0.7, 1], reps=500)
    assert profile.estimate.tolist() == [0.25, 1.0, 0.75, 0.25, 0.0]
    assert profile.low[1] == profile.high[1] == 1 and profile.low[4] == profile.high[4] == 0


def test_the_interval_of_a_worked_example_and_none_of_one_run() -> None:
    """Two runs, one above: the share is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    for level, ends in ((0.95, ([0.0], [1.0])), (0.4, ([0.5], [0.5]))):
        profile = statistics.performance_profile(np.array([[0.0], [1.0]]), [0.5], reps=5_000, level=level)
        assert (profile.low.tolist(), profile.high.tolist()) == ends
    alone = statistics.performance_profile(np.array([[0.0, 1.0]]), [0.5])
    assert alone.estimate.tolist() == [0.5] and np.isnan(alone.low).all() and np.isnan(alone.high).all()


@pytest.mark.parametrize("thresholds", [[], [np.nan], [[0.5]], 0.5])
def test_thresholds_are_a_list_of_numbers(thresholds: object) -> None:
    with pytest.raises(ValueError, match="thresholds"):
        statistics.performance_profile(np.zeros((2, 2)), thresholds)
