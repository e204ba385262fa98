"""Studies with the cells that a command plans and numbers chosen by hand, as if they had been run."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.plan.config import Cell
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records import schema
from guidebench.harness.records.study import StudyDirectory
from tests.reports.conftest import without_pictures, write_rows

SEEDS = (0, 1)
PROVENANCE = {"commit": "abc123", "dirty": False, "packages": {}, "hardware": {"processor": "some CPU", "cores": 2}}


unrendered_module = pytest.fixture(scope="module", autouse=True)(without_pictures)
"""Import this fixture to leave figures unrendered in a module's tests and in its module fixtures."""


def entries(plan: Plan, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the entries of study.json for a plan's cells and their stages."""
    return {
        cell.id: {
            "directory": cell.directory,
            "seeds": [*seeds],
            "label_variant": plan.variant(cell),
            **plan.place(cell),
        }
        for cell in plan.trained
    }


def as_if_run(plan: Plan, directory: Path, completion: Callable[[Cell], float]) -> Path:
    """Write a finished study of a plan. The one evaluation of each run is at its end: two episodes of 100 and 300
    steps, of which the first succeeds; `completion` is that of both, and the score where it is no success. The second
    run of a cell is like the first."""
    study = StudyDirectory(directory)
    study.write(plan.name, [*plan.command], entries(plan, SEEDS))
    for cell in plan.trained:
        write_cell(study, cell)
        for seed in SEEDS:
            _write_run(cell, seed, directory / cell.directory / f"seed-{seed}", completion(cell))
    return directory


def _write_run(cell: Cell, seed: int, run: Path, completed: float) -> None:
    run.mkdir(parents=True)
    state = {"schema": schema.SCHEMA_VERSION, "status": "finished", "seed": seed, "step": cell.steps,
             "steps": cell.steps, "error": None, "provenance": PROVENANCE}  # fmt: skip
    (run / "run.json").write_text(json.dumps(state))
    cell_record = record(cell)
    names: dict[str, Any] = {key: cell_record[key] for key in schema.EVALUATION if key in cell_record}
    rows, outcomes = [], []
    for episode, (success, length) in enumerate(((True, 100), (False, 300))):
        row = {**dict.fromkeys(schema.EVALUATION), **names, "study": "s", "seed": seed, "step": cell.steps,
               "episode": episode, "return": float(success), "success": success, "length": length}  # fmt: skip
        rows.append({**row, schema.SCORE: completed} if cell.score.recorded else row)
        for outcome, value in (("completion", completed), ("alive", 1.0 - episode)):
            outcomes.append({"step": cell.steps, "episode": episode, "outcome": outcome, "value": value})
    write_rows(run, "evaluations", rows, parquet=True)
    write_rows(run, "outcomes", outcomes)
    write_rows(run, "timings", [{"step": cell.steps, "seconds": 90.0, "evaluation_seconds": 8.0, "seeds": 1}])
