"""The cost of a job rests on the best available basis, and few cells are timed for it."""

from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.launchers import local
from guidebench.harness.plan import matrix
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import Setup, Timing, jobs


def _plan(*overrides: str) -> Plan:
    return matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "seeds=3", *overrides])


def test_an_estimate_rests_on_the_best_that_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    plan = _plan("learner.lr=0.1,0.2", "training.steps=1000,2000", "evaluation.every=500")
    places = local.Local().slots(plan.execution)
    assert {cost.basis for cost in estimates.costs(plan, places)} == {"counted"}
    estimates.keep(plan.cells[0], Setup(1, "cpu"), Timing(50.0, 4.0, 0.0, 6.0), "timed")
    costs = dict(zip([(cell.settings["learner.lr"].value, cell.steps) for cell in plan.cells],
                     estimates.costs(plan, places), strict=True))  # fmt: skip
    assert costs[0.1, 1000] == estimates.Cost(50.0 + 2 * 4.0, 6.0, "timed")
    assert costs[0.1, 2000] == estimates.Cost(100.0 + 4 * 4.0, 12.0, "timed")
    assert {costs[0.2, 1000].basis, costs[0.2, 2000].basis} == {"scaled"}
    assert costs[0.2, 1000].seconds == pytest.approx(58.0, rel=0.01), "the scaled cell takes as long as the timed one"


def test_a_worker_waits_for_a_judge_that_takes_longer_than_training() -> None:
    assert jobs._cost(_plan("training.steps=600").cells[0], Timing(10.0, 1.0, 40.0, 5.0), "timed") == estimates.Cost(
        40.0 + 3 * 1.0, 45.0, "timed"
    )


def test_a_dry_run_times_cells_once_and_says_what_it_rests_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(jobs, "SECONDS", 1.0)
    timed_setups: list[list[Setup]] = []

    def timed(cells, setups, seconds):
        timed_setups.append(setups)
        return [Timing(7200.0, 0.0, 0.0, 0.0) for _ in cells]

    monkeypatch.setattr(jobs, "timed", timed)
    command = ["run", "suite=minigrid_doorkey", "task=5x5", "profile=smoke", "method=uer", "seeds=1", "--dry-run"]
    for _ in range(2):
        assert cli.main(command) == 0
        output = " ".join(capsys.readouterr().out.split())
        assert "about 2.0 hours" in output and "likely between 1.6 hours and 5.0 hours" in output
        assert "estimated by some of its own updates, timed here" in output
    assert timed_setups == [[Setup(1, "cpu", 0)]]
    assert cli.main([*command, "env_workers=2"]) == 0
    assert timed_setups[1:] == [[Setup(1, "cpu", 2)]], "another setup is timed on its own"


def test_a_cell_of_each_learner_is_timed_before_a_second_of_any() -> None:
    """Of twelve kinds of cells four are timed: two of each learner, on the longest task."""
    plan = matrix.plan(["suite=minigrid_doorkey", "method=uer,per", "learner=dqn,iqn", "seeds=1"])
    assert len(plan.cells) == 12
    timed_cells = [(cell.names.part("learner"), cell.names.task) for cell in jobs._cells_to_time(plan.cells)]
    assert sorted(timed_cells) == [("dqn", "16x16")] * 2 + [("iqn", "16x16")] * 2
    assert {learner for learner, _ in timed_cells[:2]} == {"dqn", "iqn"}
