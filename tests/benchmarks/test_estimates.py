"""The benchmark of estimates trains what it estimates, and scales it to the whole run."""

import json
from pathlib import Path

import pytest

from benchmarks import estimates
from guidebench.harness import registry


def test_every_suite_and_every_learner_has_a_cell() -> None:
    names = [name for name, _ in estimates.cells()]
    suites = [name for name in registry.names("suite") if registry.get("suite", name).tasks]
    assert names == [*suites, *registry.names("learner")]


def test_a_tenth_of_a_run_is_trained_up_to_the_next_evaluation_and_scaled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    words = ["suite=minigrid_doorkey", "task=5x5", "method=uer", "profile=smoke", "seeds=1", "workers=1", "device=cpu"]
    row = estimates.compare("minigrid_doorkey", words, 0.3, 0.0)
    assert (row["steps"], row["trained"], row["basis"]) == (600, 200, "counted")
    assert row["ratio"] == row["seconds"] / row["estimated_seconds"] > 0
    assert row["processor_seconds"] > 0
    (line,) = estimates.table([row])[2:]
    assert line.startswith("| minigrid_doorkey 5x5, uer (dqn) | 600 | ")
    estimates._keep(tmp_path / "rows.json", [row])
    estimates._keep(tmp_path / "rows.json", [{**row, "name": "dqn"}])
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["minigrid_doorkey", "dqn"]
