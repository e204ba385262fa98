"""Equal tuning: which entries run, and how the words that did best enter the claims."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from guidebench.harness import claims
from guidebench.harness.claims import Claims
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import study, tuning
from tests.refusals import check_refused

CLAIMS: dict[str, Any] = {
    "claims": [
        {
            "first": ["method=vlm_rb", "judge=sprite"], "second": ["method=uer"],
            "placebo": ["method=vlm_rb", "models=placebo", "models.placebo=answers.parquet"],
            "score": "late success", "direction": "higher", "primary": True,
        }
    ],
    "difficulty": "", "settings": ["suite=minigrid_doorkey", "profile=smoke"], "n": 5, "delta": 0.2, "sigma": 0.1,
    "alpha": 0.05, "looks": 1, "pilot": "", "hours": 1.0,
    "tuning": {
        "seeds": 2, "score": "late success", "chosen": {},
        "grids": {
            "method=vlm_rb judge=sprite": [["replay.lambda_max=0.25"], ["replay.lambda_max=0.75"]],
            "method=uer": [["learner.lr=1e-4"], ["learner.lr=1e-3"]],
        },
    },
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "claims.json"
    file.write_text(json.dumps(CLAIMS))
    return file


def train(plan: Plan) -> study.Study:
    """Write runs whose success is a function of the setting that was tried: λ = .75 and the lower rate do better."""
    directory = StudyDirectory(study.directory_of(plan))
    for cell in plan.cells:
        settings = {name: setting.value for name, setting in cell.settings.items()}
        good = settings.get("replay.lambda_max") == 0.75 or settings["learner.lr"] == 1e-4
        for seed in plan.seeds:
            home = directory.run(cell.directory, seed).home
            home.mkdir(parents=True, exist_ok=True)
            pd.DataFrame({"step": [600, 600], "success": [good, False]}).to_parquet(home / "evaluations.parquet")
            (home / "run.json").write_text(json.dumps({"schema": 2, "status": "finished"}))
    return study.look(plan)


def test_the_words_that_did_best_enter_their_row_and_change_the_seeds(path: Path) -> None:
    record = claims.read(path)
    tuned = tuning.carry_out(record, path, (), train)
    claim = tuned.claims[0]
    assert claim.first == ("method=vlm_rb", "judge=sprite", "replay.lambda_max=0.75")
    assert claim.second == ("method=uer", "learner.lr=1e-4")
    assert claim.placebo == (
        "method=vlm_rb",
        "models=placebo",
        "models.placebo=answers.parquet",
        "replay.lambda_max=0.75",
    )
    assert claims.read(path) == tuned and tuned.seeds != record.seeds
    assert tuned.tuning is not None and tuned.tuning.runs == 4
    check_refused("tuned already", tuning.trials, tuned, path, ())


def test_tuning_seeds_are_neither_of_pilots_nor_of_studies(path: Path) -> None:
    seeds = {seed for trial in tuning.trials(claims.read(path), path, ()) for seed in trial.plan.seeds}
    assert seeds == {15_000, 15_001}


def test_claims_without_grids_say_how_to_add_them(path: Path) -> None:
    record: Claims = replace(claims.read(path), tuning=None)
    check_refused('"grids"', tuning.trials, record, path, ())


def test_an_entry_that_sweeps_is_refused(path: Path) -> None:
    fields = json.loads(path.read_text())
    fields["tuning"]["grids"]["method=uer"][0] = ["learner.lr=1e-4,1e-5"]
    path.write_text(json.dumps(fields))
    check_refused("describes 2 cells", tuning.trials, claims.read(path), path, ())
