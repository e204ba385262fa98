import numpy as np
import pytest

from guidebench.harness import statistics
from guidebench.harness.statistics import coverage


def test_of_three_normal_scores_the_true_mean_is_below_or_above_all_in_a_quarter_of_cases() -> None:
    """One resample in 27 is the lowest run three times, more than 2.5 %, so the interval is from lowest to highest."""
    assert coverage.NORMAL[3] == 1 - 2 / 8 and coverage.NORMAL[2] == 1 - 2 / 4


@pytest.mark.parametrize("runs", [2, 3, 4, 5, 6, 7, 8, 10])
def test_the_coverage_that_is_stated_is_that_of_a_simulation(runs: int) -> None:
    cases, reps, near = (4_000, 10_000, 0.02) if runs < 8 else (2_000, 2_000, 0.025)
    assert coverage.simulated(runs, cases, reps=reps) == pytest.approx(coverage.NORMAL[runs], abs=near)
    # between the numbers known the smaller counts
    assert coverage.coverage(12)[0] == coverage.NORMAL[10] and coverage.coverage(1_000)[0] == coverage.NORMAL[30]


@pytest.mark.parametrize("runs", [3, 5, 8])
def test_where_seeds_solve_the_task_or_fail_the_coverage_is_that_of_every_number_of_successes(runs: int) -> None:
    chances = [coverage.SOLVED**n * (1 - coverage.SOLVED) ** (runs - n) for n in range(runs + 1)]
    covered = 0.0
    for solved, chance in enumerate(chances):
        scores = np.array([1.0] * solved + [0.0] * (runs - solved))[:, None]
        interval = statistics.intervals(scores, ["mean"], 20_000)["mean"]
        ways = float(np.prod([(runs - i) / (i + 1) for i in range(solved)]))
        covered += ways * chance * (interval.low <= coverage.SOLVED <= interval.high)
    assert coverage.coverage(runs)[1] == pytest.approx(covered)
    assert coverage.solved(3) == pytest.approx(1 - 0.8**3 - 0.2**3), (
        "the interval is a point where all three seeds solve the task (.512) or none does"
    )
