"""Remarks on runs whose learner stayed uniform or whose guide added nearly nothing."""

import pandas as pd

from guidebench.reports.runs.learning import remarks


def lines(**columns: list[float]) -> list[str]:
    return list(remarks(pd.DataFrame(columns)))


def test_an_entropy_that_never_left_its_maximum_is_said() -> None:
    (line,) = lines(entropy_share=[float("nan"), 0.99, 0.98], entropy_bonus=[float("nan"), 0.3, 0.16])
    assert "it was at least 98.0% of that of uniform actions; α times the entropy was 0.16 at the end" in line
    assert lines(entropy_share=[0.99, 0.5, 0.99], entropy_bonus=[0.1, 0.1, 0.1]) == []


def test_shaping_under_a_hundredth_of_the_tasks_reward_is_said() -> None:
    """Means of .009 and of 1: under a hundredth; .02 is not."""
    names = ("guide/shaping", "guide/task_reward")
    (line,) = lines(**dict(zip(names, ([0.008, 0.01], [1.0, 1.0]), strict=True)))
    assert "0.009 a step on average, was under a hundredth of the task's reward, 1" in line
    assert lines(**dict(zip(names, ([0.02, 0.02], [1.0, 1.0]), strict=True))) == []


def test_a_run_without_such_metrics_gets_no_remark() -> None:
    assert lines(loss=[1.0]) == [] and list(remarks(None)) == []
