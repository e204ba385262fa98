"""Recorded answers of a real sentence encoder belong to the bytes of its files, wherever these are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models import study_models
from guidebench.harness.plan import matrix
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.run import study
from tests.conftest import require

require("transformers")
require("crafter")

WORDS = (
    "suite=crafter_ood", "task=deforestation", "suite.impossible=masked", "suite.hunger=true", "suite.area=16",
    "suite.length=50",
    "method=ellm_exploration", "goals=scripted", "text_embedder=transformers", "text_embedder.dtype=float32",
    "guide.width=32", "training.steps=100", "evaluation.every=100", "evaluation.episodes=1", "seeds=[0]",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=8",
    "learner.learning_starts=64",
)  # fmt: skip
"""A run with random possible actions, which achieve something in every episode."""
RUN_FILES = ("evaluations.parquet", "policy.safetensors", "achieved.parquet")


@pytest.fixture
def encoder(tiny: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny("sentence_bert"), tmp_path / "encoder"))


def rows(directory: Path) -> list[bytes]:
    return [path.read_bytes() for name in RUN_FILES for path in sorted(directory.glob(f"*/*/*/seed-*/{name}"))]


def test_a_study_that_was_recorded_by_the_name_of_its_model_replays_under_its_old_id(
    train: Callable[..., Path], encoder: Path, tmp_path: Path
) -> None:
    words = (*WORDS, f"text_embedder.model={encoder}")
    first = train(*words, "text_embedder.digest=null", packs=[(0,)])
    study_models.settle(study_models.folder(first))
    (file,) = first.glob("*/*/*/cell.json")
    cell_record = read_json(file)
    del cell_record["settings"]["text_embedder.digest"]  # as in a study recorded by the model's name
    write_json(file, cell_record)
    anew = [f"output={tmp_path / 'anew'}", f"models.cassette={first}", "models.mode=replay"]
    with pytest.raises(UserError, match=r"recorded by its name alone; replay that with text_embedder\.digest=null"):
        study.carry_out(matrix.plan([*words, "profile=smoke", *anew]))
    replay = {"mode": "replay", "cassette": str(first)}
    named_replay = train(*words, "text_embedder.digest=null", packs=[(0,)], models=replay)
    shutil.rmtree(encoder)
    unnamed_replay = train(*words, packs=[(0,)], models=replay)
    for replayed, roles in ((named_replay, None), (unnamed_replay, ["text_embedder"])):
        (run,) = replayed.glob("*/*/*/seed-0/run.json")
        assert read_json(run)["provenance"].get("replayed") == roles, "the roles whose models were not here"
        assert [path.parent.name for path in replayed.glob("*/*/*/cell.json")] == [file.parent.name]
        assert rows(replayed) == rows(first)
