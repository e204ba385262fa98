"""The words of claims beside the cells on record: planned cells are those of their words, and every other is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.claims import Claim, Claims, Row, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.identity import cells
from guidebench.harness.plan import claim_rows
from guidebench.harness.records.files import write_json
from guidebench.harness.records.study import StudyDirectory

GUIDED, BASE = ("method=vlm_rb", "models=scripted"), ("method=uer",)
DOORKEY = ("suite=minigrid_doorkey", "task=6x6", "profile=quick", "training.steps=50000", "learner.dqn.lr=1e-4")
CRAFTER = (
    "suite=crafter_ood", "task=wood_sword", "profile=quick", "training.steps=24000", "suite.actions=find",
    "evaluation.episodes=10",
)  # fmt: skip
HOUSEKEEP = ("suite=housekeep", "task=adjustment_2", "profile=quick")
LINVIT = ("method=linvit", "models=scripted")
STAGED = (
    "method=ellm", "models=scripted", "text_embedder.width=384", "pretraining.keeps=[encoder,trunk]",
    "pretraining.training.steps=24000",
)  # fmt: skip


def claims_of(shared: Sequence[str], *pairs: tuple[Row, Row | None]) -> Claims:
    claims = (Claim(first, second, None, "late success", "higher", True) for first, second in pairs)
    return Claims(tuple(claims), "", tuple(shared), n=8, delta=0.2, sigma=0.1, pilot="", hours=1.0)


def write(directory: Path, planned: Claims, record: Claims | None = None) -> Path:
    """Write a study whose cells are those of `planned` and which holds the claims `record`, by default the same. The
    rows of the two are the same in order."""
    record = record or planned
    ids: dict[str, list[str]] = {}
    listed: dict[str, Mapping[str, object]] = {}
    for claimed, row in zip(record.rows, planned.rows, strict=True):
        plan = claim_rows.row_plan(planned.settings, row, planned.seeds, (), directory)
        for cell in plan.cells:
            cells.write_cell(StudyDirectory(directory), cell)
            listed[cell.id] = {"directory": cell.directory, "seeds": list(planned.seeds)}
        ids[key_of(claimed)] = [cell.id for cell in plan.cells]
    write_json(directory / "claims.json", record.as_json())
    claims_entry = {"digest": record.digest, "rows": ids}
    write_json(directory / "study.json", {"schema": 2, "study": "s", "cells": listed, "claims": claims_entry})
    return directory


@pytest.mark.parametrize(
    "claims",
    [
        claims_of(DOORKEY, (GUIDED, BASE)),
        claims_of((*DOORKEY[:4], "replay.lambda_max=0.25"), (("method=vlm_rb", "replay.lambda_max=0,0.5,1"), None)),
        claims_of(DOORKEY, (("method=vlm_rb", "judge=oracle", "learner.lr=1e-3"), BASE)),
        claims_of(CRAFTER, (STAGED, ("method=ellm", "pretraining=none"))),
        claims_of(("suite=minigrid_doorkey", "difficulty=6x6_50k"), (GUIDED, BASE)),
    ],
    ids=["settings", "sweep", "named part", "stage", "difficulty"],
)
def test_the_cells_that_claims_plan_agree_with_them(tmp_path: Path, claims: Claims) -> None:
    study = results.study(write(tmp_path, claims))
    assert study.claims is not None and [*study.claims.rows] == [key_of(row) for row in claims.rows]


@pytest.mark.parametrize(
    ("planned", "claimed", "message"),
    [
        (DOORKEY, (*DOORKEY[:3], "training.steps=60000", DOORKEY[4]), "training.steps=50000, .* training.steps=60000"),
        (DOORKEY, (*DOORKEY[:4], "learner.dqn.lr=1e-3"), "learner.lr=0.0001, .* learner.lr=0.001"),
        ((*DOORKEY, "evaluation.every=10000"), DOORKEY, r"evaluation.every=10000, .* evaluation.every=\(not given\)"),
        (DOORKEY, (DOORKEY[0], "task=8x8", *DOORKEY[2:]), "task=6x6, .* task=8x8"),
        (DOORKEY, (*DOORKEY[:2], "profile=paper", *DOORKEY[3:]), "profile=quick, .* profile=paper"),
    ],
)
def test_a_study_with_other_settings_than_its_claims_is_refused(
    tmp_path: Path, planned: Sequence[str], claimed: Sequence[str], message: str
) -> None:
    directory = write(tmp_path, claims_of(planned, (GUIDED, BASE)), claims_of(claimed, (GUIDED, BASE)))
    with pytest.raises(UserError, match=message):
        results.study(directory)


@pytest.mark.parametrize(
    ("shared", "planned", "claimed", "message"),
    [
        (DOORKEY, GUIDED, ("method=vlm_rb", "models=placebo", "models.placebo=a"), "=scripted, .* models=placebo"),
        (DOORKEY, ("method=vlm_rb", "judge=oracle"), GUIDED, "models=oracle, .* models=scripted"),
        (DOORKEY, GUIDED, ("method=vlm_rb", "judge=oracle"), "judge=sprite, .* judge=oracle"),
        (DOORKEY, GUIDED, ("method=vlm_rb", "chat=openai"), r"chat=\(no such part\), .* chat=openai"),
        (DOORKEY, GUIDED, (*GUIDED, "replay.lambda_max=0.25"), "replay.lambda_max=.*, .* replay.lambda_max=0.25"),
        (DOORKEY, GUIDED, (*GUIDED, "guide.rho=0.25"), r"guide.rho=\(no such setting\)"),
        (HOUSEKEEP, LINVIT, (*LINVIT, "learner.dueling_dqn.lr=0.5"), "learner.lr=.*, .* learner.lr=0.5"),
        (CRAFTER, STAGED, ("method=ellm", "pretraining=none"), "pretraining=ellm_exploration, .* pretraining=none"),
        (CRAFTER, STAGED, (*STAGED, "pretraining.learner.lr=0.5"), "the claims have pretraining.learner.lr=0.5"),
    ],
)  # fmt: skip
def test_a_row_with_other_parts_or_settings_than_its_words_is_refused(
    tmp_path: Path, shared: Sequence[str], planned: Row, claimed: Row, message: str
) -> None:
    second = BASE if shared is DOORKEY else ("method=sparse",)
    directory = write(tmp_path, claims_of(shared, (planned, second)), claims_of(shared, (claimed, second)))
    with pytest.raises(UserError, match=message):
        results.study(directory)


def test_a_sweep_without_one_of_its_cells_is_refused(tmp_path: Path) -> None:
    trend = claims_of(DOORKEY, (("method=vlm_rb", "replay.lambda_max=0,0.5,1"), None))
    directory = write(tmp_path, trend)
    study_record = json.loads((directory / "study.json").read_text())
    study_record["claims"]["rows"][key_of(trend.rows[0])].pop()
    write_json(directory / "study.json", study_record)
    with pytest.raises(UserError, match=r"has no cell with replay\.lambda_max=1, which the claims sweep"):
        results.study(directory)
