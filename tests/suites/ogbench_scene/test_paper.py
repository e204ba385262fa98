"""VLM-RB's study of Scene as one command: what it plans, and a smoke version laid out as the paper's tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ogbench")

from guidebench.harness.episodes import demonstrations
from guidebench.harness.episodes.demonstrations import Wanted
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.reports.commands import report
from guidebench.results import published
from guidebench.suites.ogbench_scene import HORIZON, OgbenchScene

COMMAND = ("suite=ogbench_scene", "method=uer,per,vlm_rb", "learner=sac,td3")
TABLES = ("1", "7", "8")
SHORT = (
    "training.steps=96",
    "training.demonstrations=1",
    "evaluation.every=96",
    "evaluation.episodes=1",
    "judge.delay=32",
    "learner.learning_starts=48",
    "learner.batch_size=16",
)


def place(cell: Cell) -> tuple[str, str, str]:
    return cell.names.task, cell.names.method, cell.names.part("learner")


def told() -> set[tuple[str, str, str]]:
    """Task, method and learner of every run that the tables' lines on Scene speak of."""
    numbers = published.load("vlm_rb")
    numbers = numbers[numbers["table"].isin(TABLES) & (numbers["suite"] == "ogbench_scene")]
    found = set()
    for row in numbers.itertuples():
        for learner in published.variant(row.variant)["learner"].split(","):
            found |= {(task, row.method, learner) for task in row.task.split(",") if task != "all"}
    return found


def test_the_command_plans_every_run_that_the_tables_tell_of_and_no_other() -> None:
    plan = matrix.plan([*COMMAND, "seeds=5", "profile=paper"])
    assert {place(cell) for cell in plan.cells} == told() and len(plan.cells) == 18
    for cell in plan.cells:
        settings = {key: value.value for key, value in cell.settings.items()}
        assert settings["training.steps"] == 1_000_000 and settings["training.demonstrations"] == 10
        assert settings.get("replay.td_boost", True), "VLM-RB of Scene is boosted by TD errors"


@pytest.mark.slow
def test_a_smoke_version_trains_and_fills_every_line_on_scene(
    train: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its episodes end after 32 steps: evaluations of 750 would take most of its time and add nothing to the tables."""
    for task in ("task3", "task4", "task5"):
        demonstrations.obtain(Wanted("ogbench_scene", OgbenchScene(), task, 1))  # which take longer to the goal
        monkeypatch.setitem(HORIZON, task, 32)
    study = train(*COMMAND, "task=task3,task4,task5", "judge=oracle", "seeds=[0]", *SHORT, packs=[(0,)], probes=0)
    assert report.main([str(study), "--paper", "vlm_rb", "--resamples", "100"]) == 0, capsys.readouterr().err
    written = json.loads((study / "report" / "vlm_rb" / "vlm_rb.json").read_text())
    lines = [number for table in written["tables"] for number in table["numbers"]
             if number["table"] in TABLES and number["suite"] == "ogbench_scene"]  # fmt: skip
    assert {number["table"] for number in lines} == set(TABLES)
    for number in lines:
        assert number["verdict"] == "not comparable", "a smoke run says nothing of a paper, but it stands in its line"
        assert {"profile smoke", "96 of 1,000,000 steps"} <= set(number["reasons"])
        if number["metric"] == "best_success_rate":
            assert 0 <= number["ours"]["estimate"] <= 1
    behind = {tuple(Path(run).parts[1:3]) for number in lines for run in number["runs"]}
    assert len(behind) == 18, "every run stands behind some line"
