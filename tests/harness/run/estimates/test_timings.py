"""Timings are cached for cells that differ at most in steps and evaluations."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import Setup, Timing


def cell(*overrides: str) -> Cell:
    words = ["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *overrides]
    (planned_cell,) = matrix.plan(words).cells
    return planned_cell


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "timings"


def test_a_timing_is_remembered_for_cells_of_any_length_and_for_no_others(directory: Path) -> None:
    short, long = cell("method=uer", "training.steps=1000"), cell("method=uer", "training.steps=3000")
    alone = Setup(1, "cpu")
    assert estimates.cached_timing(short, alone) is None
    estimates.keep(short, alone, Timing(10.0, 2.0, 1.0, 0.5), "timed")
    assert estimates.cached_timing(long, alone) == (Timing(30.0, 2.0, 3.0, 1.5), "timed")
    assert (
        estimates.cached_timing(long, Setup(2, "cpu")) is None
        and estimates.cached_timing(long, Setup(1, "cpu", 1)) is None
    )
    assert estimates.cached_timing(cell("method=uer", "learner.lr=0.1"), alone) is None
    (file,) = directory.glob("*.json")
    for broken_text in ("{", "[]", json.dumps({"schema": 2, "basis": "guessed", "steps": 0})):
        file.write_text(broken_text)
        assert estimates.cached_timing(short, alone) is None


def test_a_timing_of_the_former_method_is_not_used(directory: Path) -> None:
    short, alone = cell("method=uer", "training.steps=1000"), Setup(1, "cpu")
    estimates.keep(short, alone, Timing(10.0, 2.0, 1.0, 0.0), "recorded")
    (file,) = directory.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 1}))
    assert estimates.cached_timing(short, alone) is None
    estimates.keep(short, alone, Timing(3.0, 1.0, 1.0, 0.0), "timed")
    assert estimates.cached_timing(short, alone) == (Timing(3.0, 1.0, 1.0, 0.0), "timed")


def test_a_whole_run_tells_more_than_a_few_of_its_steps(directory: Path) -> None:
    trained_cell, alone = cell("method=uer", "training.steps=1000", "evaluation.every=100"), Setup(1, "cpu")
    clock = {"seconds": 130.0, "evaluation_seconds": 30.0, "checkpoint_seconds": 1.0, "wait_seconds": 5.0}
    estimates.record_run(trained_cell, alone, {**clock, "seconds": 3.0}, 0.0, 0.0)
    assert estimates.cached_timing(trained_cell, alone) is None, "too short to tell"
    estimates.record_run(trained_cell, alone, clock, 7.0, 2.0)
    recorded = (Timing(100.0, 3.0, 7.0, 2.0), "recorded")  # ten evaluations took 30 seconds
    assert estimates.cached_timing(trained_cell, alone) == recorded
    estimates.keep(trained_cell, alone, Timing(1.0, 1.0, 1.0, 1.0), "timed")
    assert estimates.cached_timing(trained_cell, alone) == recorded
    asking_cell = cell("method=vlm_rb", "judge=openai", "training.steps=1000", "evaluation.every=100")
    estimates.record_run(asking_cell, alone, clock, 7.0, 0.0)
    record: Any = estimates.cached_timing(asking_cell, alone)
    assert record[0] == Timing(95.0, 3.0, 0.0, 0.0), "waiting for a foundation model is not the machine's time"
