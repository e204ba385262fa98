"""Plans of claims: which cells and seeds `claims=FILE` means, and which words are refused beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.plan import matrix, variations
from guidebench.harness.run import study
from tests.refusals import check_refused

CLAIM = {
    "first": ["method=vlm_rb", "judge=sprite"],
    "second": ["method=uer"],
    "placebo": None,
    "score": "area success",
    "direction": "higher",
    "primary": True,
}
TREND = CLAIM | {"first": ["method=vlm_rb", "replay.lambda_max=0,0.5,1"], "second": None, "primary": False}
SETTINGS = ["suite=minigrid_doorkey", "profile=smoke", "training.steps=700", "replay.lambda_max=0.25"]


def write(folder: Path, **changes: Any) -> Path:
    fields = {
        "claims": [CLAIM], "difficulty": "", "settings": SETTINGS, "n": 6, "delta": 0.2, "sigma": 0.1, "alpha": 0.05,
        "looks": 1, "pilot": "", "hours": 1.0,
    }  # fmt: skip
    path = folder / "claims.json"
    path.write_text(json.dumps(fields | changes))
    return path


def test_each_row_is_planned_with_the_settings_that_it_has_and_the_seeds_of_the_digest(tmp_path: Path) -> None:
    plan = matrix.plan([f"claims={write(tmp_path)}", f"output={tmp_path / 'study'}"])
    seeds = plan.claims.record.seeds
    assert plan.seeds == seeds
    words = [*SETTINGS[:3], "method=uer", f"seeds=[{','.join(map(str, seeds))}]"]
    guided = ["suite=minigrid_doorkey", "profile=smoke", "training.steps=700", "replay.lambda_max=0.25"]
    uer, vlm_rb = matrix.plan(words).cells, matrix.plan([*guided, "method=vlm_rb", "judge=sprite"]).cells
    assert [cell.id for cell in plan.cells] == [vlm_rb[0].id, uer[0].id]
    assert plan.claims.rows == {"method=vlm_rb judge=sprite": (vlm_rb[0].id,), "method=uer": (uer[0].id,)}


def test_a_word_of_a_row_replaces_a_shared_setting_and_a_trend_has_a_cell_for_each_value(tmp_path: Path) -> None:
    plan = matrix.plan([f"claims={write(tmp_path, claims=[CLAIM, TREND])}"])
    trend = plan.claims.rows["method=vlm_rb replay.lambda_max=0,0.5,1"]
    strengths = {cell.id: cell.settings["replay.lambda_max"].value for cell in plan.cells if "vlm_rb" in cell.directory}
    assert [strengths[cell] for cell in trend] == [0.0, 0.5, 1.0]


def test_the_first_look_has_the_first_half_of_the_seeds(tmp_path: Path) -> None:
    path = write(tmp_path, looks=2, n=8)
    every, half = matrix.plan([f"claims={path}"]).seeds, matrix.plan([f"claims={path}", "look=1"]).seeds
    assert half == every[:4]


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        (["seeds=3"], {}, "seeds= is given beside claims="),
        (["learner.lr=1e-3"], {}, r"learner\.lr= is given beside claims="),
        (["look=1"], {}, "declare one look"),
        (["look=2"], {"looks": 2, "n": 8}, "expected 1"),
        ([], {"claims": [CLAIM | {"first": ["method=vlm_rb", "replay.lambda_max=0,1"]}]}, "sweeps a setting"),
        ([], {"claims": [CLAIM, TREND | {"first": ["method=vlm_rb", "replay.lambda_max=0,1"]}]}, "fewer than three"),
        (
            [],
            {"claims": [CLAIM | {"first": ["method=uer", "learner=dqn"]}], "settings": SETTINGS[:3]},
            "same cells",
        ),
        ([], {"claims": [CLAIM | {"first": ["method=nope"]}]}, "nope"),
        ([], {"settings": [*SETTINGS, "training.stepz=7"]}, "no row has it"),
        ([], {"settings": [*SETTINGS, "learner.td3.hiden=[8]"]}, "no row has it"),
        ([], {"settings": [*SETTINGS, "evaluation.episodes=2,3"]}, "one each"),
        ([], {"settings": [*SETTINGS, "training.steps=7"]}, "twice"),
        ([], {"settings": [*SETTINGS, "output=x"]}, "how a study is executed"),
        ([], {"settings": [*SETTINGS, "evaluation.every=700"]}, "one evaluation"),
        ([], {"difficulty": "nowhere"}, "nowhere"),
        ([], {"difficulty": "5x5_30k"}, "not among their settings"),
        ([], {"claims": [CLAIM | {"score": "late placed"}]}, "have no 'placed'; they have score, success, return"),
    ],
)
def test_what_the_claims_fix_cannot_be_given_and_rows_must_differ(
    tmp_path: Path, words: list[str], changes: dict[str, Any], message: str
) -> None:
    check_refused(message, matrix.plan, [f"claims={write(tmp_path, **changes)}", *words])


def test_a_difficulty_may_set_a_learner_that_no_row_has(tmp_path: Path) -> None:
    """As Scene's do, whose methods may choose SAC or TD3."""
    plain = matrix.plan([f"claims={write(tmp_path)}"])
    either = matrix.plan([f"claims={write(tmp_path, settings=[*SETTINGS, 'learner.td3.hidden=[8]'])}"])
    assert [cell.id for cell in either.cells] == [cell.id for cell in plain.cells]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    check_refused(r"nowhere\.json cannot be read", matrix.plan, [f"claims={tmp_path / 'nowhere.json'}"])


def test_a_study_is_not_continued_with_other_claims(tmp_path: Path) -> None:
    plan = matrix.plan([f"claims={write(tmp_path)}", f"output={tmp_path / 'study'}"])
    (tmp_path / "study").mkdir()
    record = {"schema": 2, "study": "s", "command": [], "cells": {}}
    for claims_entry, message in (
        ({}, "without claims"),
        ({"claims": {"digest": "0" * 64}}, "of claims with the digest 0000"),
    ):
        (tmp_path / "study" / "study.json").write_text(json.dumps(record | claims_entry))
        check_refused(message, study.carry_out, plan)


def test_a_matrix_is_not_built_around_claims(tmp_path: Path) -> None:
    check_refused("claims=", variations.ablations, matrix.plan([f"claims={write(tmp_path)}"]))
