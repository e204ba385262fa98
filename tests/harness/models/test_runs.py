"""VLM-RB on DoorKey over foundation models: recorded, replayed to the byte with the model gone, stopped by a budget,
and none the worse for calls that fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.models import keeping
from tests.conftest import require
from tests.logs import logged

require("transformers")

SETTINGS = (
    "method=vlm_rb",
    "judge=transformers",
    "judge.dtype=float32",
    "judge.delay=32",
    "replay.clip_length=8",
    "drawing.tile_size=8",
    "training.steps=160",
    "evaluation.every=80",
    "learner.channels=4",
    "learner.features=8",
    "learner.hidden=[8]",
    "learner.batch_size=16",
    "learner.learning_starts=32",
)


@pytest.fixture(scope="module")
def model(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(tiny("qwen_vl"), tmp_path_factory.mktemp("models") / "qwen_vl"))


@pytest.fixture(scope="module")
def whole(train_once: Callable[..., Path], model: Path) -> Path:
    """A recorded run of two seeds, only to be read."""
    return train_once(*SETTINGS, f"judge.model={model}", "seeds=[0,1]", packs=[(0, 1)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}"))]


def lines(study: Path, name: str) -> list[dict]:
    return [row for run in sorted(study.glob("*/*/*/seed-*")) for row in logged(run, name)]


def test_a_recorded_run_replays_to_the_byte_when_the_model_is_gone(train, model: Path, whole: Path) -> None:
    gone = model.rename(model.with_name("gone"))
    try:
        replayed = train(
            *SETTINGS, f"judge.model={model}", "seeds=[0,1]", packs=[(1,), (0,)],
            models={"mode": "replay", "cassette": str(whole)},
        )  # fmt: skip
    finally:
        gone.rename(model)
    for file in ("evaluations.parquet", "judgements.parquet"):
        assert len(rows(whole, file)) == 2 and rows(replayed, file) == rows(whole, file)
    scores = [row["score"] for row in lines(whole, "judgements")]
    assert len(scores) > 20 and len(set(scores)) > 5 and all(0 < score < 1 for score in scores)
    assert all("mass" in row for row in lines(whole, "judgements"))
    last = lines(replayed, "ledger")[-1]
    assert last["billed_calls"] == 0 and last["calls"] > 12 and last["images"] == 8 * last["calls"]


def test_what_was_never_recorded_is_an_error_in_replay(train, model, whole) -> None:
    command = (*SETTINGS, f"judge.model={model}")
    with pytest.raises(UserError, match=r"step \d+: question \d+ .* was never recorded"):
        train(*command, "seeds=[3]", packs=[(3,)], models={"mode": "replay", "cassette": str(whole)})


def test_a_budget_stops_a_run_before_it_is_exceeded_and_a_higher_one_continues_it(
    train, model, whole, tmp_path
) -> None:
    command = (*SETTINGS, f"judge.model={model}", "seeds=[0]")
    study = tmp_path / "short"
    with pytest.raises(BudgetReached, match=r"models\.budget_calls=6"):
        train(*command, packs=[(0,)], directory=study, models={"budget_calls": 6})
    run = json.loads(next(study.glob("*/*/*/seed-0/run.json")).read_text())
    assert run["status"] == "stopped" and "budget_calls=6" in run["error"] and 0 < run["step"] < 160
    train(*command, packs=[(0,)], directory=study, models={"budget_calls": 1_000})
    assert rows(study, "evaluations.parquet") == rows(whole, "evaluations.parquet")[:1]
    asked, wanted = (logged(next(each.glob("*/*/*/seed-0")), "judgements") for each in (study, whole))
    scores = [[row.pop("score") for row in found] for found in (asked, wanted)]
    [row.pop("mass") for row in (*asked, *wanted)]
    assert asked == wanted
    assert scores[0] == pytest.approx(scores[1], abs=1e-5), "a batch's composition shows in the last bits alone"


def test_the_study_s_folder_is_merged_into_one_cassette(whole, tmp_path) -> None:
    study = Path(shutil.copytree(whole, tmp_path / "study"))
    keeping.settle(keeping.folder(study))
    assert sorted(path.name for path in (study / "models").glob("*.sqlite")) == ["cassette.sqlite"]
