"""VLM-RB's study of Scene as one command: the cells that it plans, and a smoke version laid out as the paper's
tables."""

import pytest

pytest.importorskip("ogbench")

from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.results import published

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


def published_runs() -> set[tuple[str, str, str]]:
    """Return (task, method, learner) of every run in the lines on Scene of the paper's tables."""
    numbers = published.load("vlm_rb")
    numbers = numbers[numbers["table"].isin(TABLES) & (numbers["suite"] == "ogbench_scene")]
    runs = set()
    for row in numbers.itertuples():
        for learner in published.variant(row.variant)["learner"].split(","):
            runs |= {(task, row.method, learner) for task in row.task.split(",") if task != "all"}
    return runs


def test_the_command_plans_every_run_that_the_tables_tell_of_and_no_other() -> None:
    plan = matrix.plan([*COMMAND, "seeds=5", "profile=paper"])
    assert {place(cell) for cell in plan.cells} == published_runs() and len(plan.cells) == 18
    for cell in plan.cells:
        settings = {key: value.value for key, value in cell.settings.items()}
        assert settings["training.steps"] == 1_000_000 and settings["training.demonstrations"] == 10
        assert settings.get("replay.td_boost", True), "VLM-RB of Scene is boosted by TD errors"
