"""VLM-RB on DoorKey with foundation models: recorded, replayed to the byte without the model, stopped by a budget, and
robust to failing calls."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import require
from tests.logs import log_rows

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
def recorded_run(train_once: Callable[..., Path], model: Path) -> Path:
    """Return a recorded study of two seeds, only to be read."""
    return train_once(*SETTINGS, f"judge.model={model}", "seeds=[0,1]", packs=[(0, 1)])


def rows(study: Path, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(study.glob(f"*/*/*/seed-*/{name}"))]


def lines(study: Path, name: str) -> list[dict]:
    return [row for run in sorted(study.glob("*/*/*/seed-*")) for row in log_rows(run, name)]


def test_a_recorded_run_replays_to_the_byte_when_the_model_is_gone(train, model: Path, recorded_run: Path) -> None:
    hidden_model = model.rename(model.with_name("gone"))
    try:
        replayed = train(
            *SETTINGS, f"judge.model={model}", "seeds=[0,1]", packs=[(1,), (0,)],
            models={"mode": "replay", "cassette": str(recorded_run)},
        )  # fmt: skip
    finally:
        hidden_model.rename(model)
    for file in ("evaluations.parquet", "judgements.parquet"):
        assert len(rows(recorded_run, file)) == 2 and rows(replayed, file) == rows(recorded_run, file)
    scores = [row["score"] for row in lines(recorded_run, "judgements")]
    assert len(scores) > 20 and len(set(scores)) > 5 and all(0 < score < 1 for score in scores)
    assert all("mass" in row for row in lines(recorded_run, "judgements"))
    last = lines(replayed, "ledger")[-1]
    assert last["billed_calls"] == 0 and last["calls"] > 12 and last["images"] == 8 * last["calls"]
