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
from tests.harness.models import tiny_models
from tests.logs import logged

require("transformers")

SETTINGS = (
    "method=vlm_rb",
    "judge=transformers",
    "judge.dtype=float32",
    "judge.delay=64",
    "replay.clip_length=8",
    "drawing.tile_size=8",
    "training.steps=240",
    "evaluation.every=120",
    "learner.channels=4",
    "learner.features=8",
    "learner.hidden=[8]",
    "learner.batch_size=16",
    "learner.learning_starts=64",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    directory = tmp_path_factory.mktemp("models")
    return lambda name: getattr(tiny_models, name)(directory / name)


@pytest.fixture(scope="module")
def whole(train_once: Callable[..., Path], models: Callable[[str], Path]) -> Path:
    """A recorded run of seed 0, only to be read."""
    return train_once(*SETTINGS, f"judge.model={models('qwen_vl')}", "seeds=[0]", packs=[(0,)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}"))]


def lines(study: Path, name: str) -> list[dict]:
    return [row for run in sorted(study.glob("*/*/*/seed-*")) for row in logged(run, name)]


@pytest.mark.parametrize("name", ["perception_lm", "qwen_vl"])
def test_a_recorded_run_replays_to_the_byte_when_the_model_is_gone(train, models, tmp_path, name: str) -> None:
    model = tmp_path / name
    shutil.copytree(models(name), model)
    command = (*SETTINGS, f"judge.model={model}", "seeds=[0,1]")
    recorded = train(*command, packs=[(0, 1)])
    shutil.rmtree(model)
    replayed = train(*command, packs=[(1,), (0,)], models={"mode": "replay", "cassette": str(recorded)})
    for file in ("evaluations.parquet", "judgements.parquet"):
        assert len(rows(recorded, file)) == 2 and rows(replayed, file) == rows(recorded, file)
    scores = [row["score"] for row in lines(recorded, "judgements")]
    assert len(scores) > 30 and len(set(scores)) > 5 and all(0 < score < 1 for score in scores)
    assert all("mass" in row for row in lines(recorded, "judgements"))
    last = lines(replayed, "ledger")[-1]
    assert last["billed_calls"] == 0 and last["calls"] > 20 and last["images"] == 8 * last["calls"]


def test_what_was_never_recorded_is_an_error_in_replay(train, models, whole) -> None:
    command = (*SETTINGS, f"judge.model={models('qwen_vl')}")
    with pytest.raises(UserError, match=r"step \d+: question \d+ .* was never recorded"):
        train(*command, "seeds=[3]", packs=[(3,)], models={"mode": "replay", "cassette": str(whole)})


def test_a_budget_stops_a_run_before_it_is_exceeded_and_a_higher_one_continues_it(
    train, models, whole, tmp_path
) -> None:
    command = (*SETTINGS, f"judge.model={models('qwen_vl')}", "seeds=[0]")
    study = tmp_path / "short"
    with pytest.raises(BudgetReached, match=r"models\.budget_calls=12"):
        train(*command, packs=[(0,)], directory=study, models={"budget_calls": 12})
    run = json.loads(next(study.glob("*/*/*/seed-0/run.json")).read_text())
    assert run["status"] == "stopped" and "budget_calls=12" in run["error"] and 0 < run["step"] < 240
    train(*command, packs=[(0,)], directory=study, models={"budget_calls": 1_000})
    assert rows(study, "evaluations.parquet") == rows(whole, "evaluations.parquet")
    asked, wanted = lines(study, "judgements"), lines(whole, "judgements")
    scores = [[row.pop("score") for row in found] for found in (asked, wanted)]
    [row.pop("mass") for row in (*asked, *wanted)]
    assert asked == wanted
    assert scores[0] == pytest.approx(scores[1], abs=1e-5), "a batch's composition shows in the last bits alone"


def test_the_study_s_folder_is_merged_into_one_cassette(whole, tmp_path) -> None:
    study = Path(shutil.copytree(whole, tmp_path / "study"))
    keeping.settle(keeping.folder(study))
    assert sorted(path.name for path in (study / "models").glob("*.sqlite")) == ["cassette.sqlite"]
