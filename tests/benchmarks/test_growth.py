"""Studies of simulated workers have what real ones leave, and a small growth table counts it; nothing here is timed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import guidebench
from benchmarks import growth
from guidebench import results
from guidebench.harness.plan import matrix
from guidebench.harness.records import leases

SEEDS, EVALUATIONS, EPISODES = 2, 50, 10
CELLS = 3


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Write a simulated study; return it and a row with the cost of each command on it."""
    home = tmp_path_factory.mktemp("growth")
    return home / f"cells-{CELLS}", growth.study_of(CELLS, SEEDS, 1, 300.0, home)


@pytest.mark.release
def test_what_is_loaded_is_what_was_written(measured: Any) -> None:
    study, row = measured
    rows = guidebench.load(study)
    assert row["rows_written"] == row["rows_loaded"] == len(rows) == CELLS * SEEDS * EVALUATIONS * EPISODES
    for (directory,), run_rows in rows.groupby(["directory"]):
        stored = pd.read_parquet(study / str(directory) / "evaluations.parquet")
        assert run_rows[list(stored)].reset_index(drop=True).astype(stored.dtypes).equals(stored)
    read = results.study(study)
    assert len(read.cells) == CELLS and [run.status for run in read.runs] == ["finished"] * CELLS * SEEDS
    assert not any(leases.holder(study / run.directory) for run in read.runs)


@pytest.mark.release
def test_every_command_does_its_work_and_its_cost_is_told(measured: Any) -> None:
    study, row = measured
    for stage in growth.STAGES:
        assert "failed" not in row[stage] and row[stage]["processor_seconds"] > 0 and row[stage]["peak_bytes"] > 2**20
    assert row["runs"] == CELLS * SEEDS
    assert set(row["report_bytes"]) >= {"report.html", "summary.json", "table.tex"}
    summary = json.loads((study / "report" / "summary.json").read_text())
    assert summary["complete"] and len(summary["rows"]) == CELLS
    lines = growth.table({"rows": [row], "stages": growth.STAGES}).splitlines()
    assert lines[:3] == [f"| cells × seeds | {CELLS} × {SEEDS} |", "| --- | --- |", f"| runs | {CELLS * SEEDS} |"]


@pytest.mark.release
def test_simulated_runs_leave_the_files_of_real_ones(measured: Any, train: Callable[..., Path]) -> None:
    def names(study: Path) -> list[set[str]]:
        runs = study.glob("*/*/*/seed-*")
        return [{str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} for run in runs]

    (real,) = names(train("method=uer", packs=[(0,)], probes=2))
    study, row = measured
    assert names(study) == [real] * CELLS * SEEDS
    sizes = row["bytes_per_run_by_name"]
    assert sum(sizes.values()) == pytest.approx(row["bytes_per_run"], abs=len(sizes))
    files = [path for path in study.rglob("*") if path.is_file() and "report" not in path.parts]
    later = 1  # the repeated command took the study's lease a second time
    assert row["files_per_run"] == pytest.approx((len(files) - later) / (CELLS * SEEDS), abs=0.01)


@pytest.mark.parametrize("cells", [1, 3, 100, 300])
def test_a_command_has_as_many_cells_as_it_should(cells: int, tmp_path: Path) -> None:
    words = [word for word in growth.words(cells, SEEDS, tmp_path)[1:] if not word.startswith("launcher")]
    plan = matrix.plan(words)
    assert len({cell.id for cell in plan.cells}) == cells and plan.seeds == (0, 1)


def test_a_number_of_cells_that_is_no_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="150 cells are no grid; give at most 100, or a multiple of it"):
        growth.words(150, SEEDS, tmp_path)


def test_a_command_that_fails_or_takes_too_long_is_recorded_as_such() -> None:
    failed, output = growth.cost(["/bin/sh", "-c", "echo no disk >&2; exit 3"], {}, 60.0)
    assert output == "no disk" and failed["failed"].endswith("with exit code 3: no disk")
    late, output = growth.cost(["/bin/sh", "-c", "echo begun; exec sleep 60"], {}, 0.5)
    assert output == "begun" and late["failed"].endswith("with exit code -9: begun")
    process, output = growth.cost(["/bin/true"], {}, 60.0)
    assert "failed" not in process and output == ""


def test_figures_of_other_numbers_of_cells_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "measured" / "growth.json"
    rows = [{"cells": cells, "seeds": seeds} for cells, seeds in ((10, 1), (1, 1), (1, 3))]
    for row in [*rows, {"cells": 10, "seeds": 1, "runs": 10}]:
        growth.keep(row, output)
    stored = json.loads(output.read_text())["results"]["growth"]["rows"]
    assert stored == [rows[1], {"cells": 10, "seeds": 1, "runs": 10}, rows[2]]
