"""Hours of a plan count the cores that its workers and the processes beside them share."""

import pytest

from guidebench.harness.launchers import local
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates


@pytest.mark.parametrize(
    ("overrides", "judging", "seconds"),
    [
        (("workers=1",), 0.0, 600.0),  # two cells, three seeds, 100 seconds each
        (("workers=2",), 0.0, 300.0),
        (("workers=16",), 0.0, 300.0),  # six at a time on two cores: each takes three times as long
        (("workers=2",), 100.0, 600.0),  # beside each worker a process draws for as long
        (("workers=4", "seeds=1"), 0.0, 100.0),
    ],
)
def test_workers_above_the_cores_save_no_time(monkeypatch, overrides, judging: float, seconds: float) -> None:
    monkeypatch.setattr(local, "cores", lambda: 2)
    words = [*overrides] if "seeds=1" in overrides else [*overrides, "seeds=3"]
    plan = matrix.plan(
        ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "learner.lr=0.1,0.2", *words]
    )
    cost = estimates.Cost(100.0, judging, "timed")
    estimate = estimates.elapsed(plan, [cost, cost], local.Local().slots(plan.execution))
    assert estimate.hours == pytest.approx(seconds / 3600)
    low, high = estimates.SPREAD["timed"]
    assert (estimate.low, estimate.high) == (pytest.approx(low * estimate.hours), pytest.approx(high * estimate.hours))


def test_core_hours_count_the_processes_beside_a_worker() -> None:
    words = ["method=uer", "learner.lr=0.1,0.2", "seeds=3", "workers=2"]  # two cells
    plan = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *words])
    costs = [estimates.Cost(3600.0, 1800.0, "timed"), estimates.Cost(7200.0, 0.0, "timed")]
    assert estimates.core_hours(plan, costs, local.Local().slots(plan.execution)) == 3 * (1.5 + 2)
