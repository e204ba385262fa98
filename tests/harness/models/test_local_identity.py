"""A real sentence encoder: its recorded answers belong to its bytes, wherever they are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models import exchange, study_models
from guidebench.harness.plan import matrix
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.run import study
from tests.conftest import require

require("transformers")
require("crafter")

WORDS = (
    "suite=crafter_ood", "task=deforestation", "suite.impossible=masked", "suite.area=16", "suite.length=50",
    "method=ellm_exploration", "goals=scripted", "text_embedder=transformers", "text_embedder.dtype=float32",
    "guide.width=32", "training.steps=100", "evaluation.every=100", "evaluation.episodes=1", "seeds=[0]",
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=8",
    "learner.learning_starts=64",
)  # fmt: skip
"""Random actions among the possible ones, which achieve something in every episode."""
KEPT = ("evaluations.parquet", "policy.safetensors", "achieved.parquet")


@pytest.fixture
def encoder(tiny: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny("sentence_bert"), tmp_path / "encoder"))


def overwrite(folder: Path) -> None:
    """Replace all weights by noise."""
    import torch
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    torch.manual_seed(1)
    save_file({name: torch.randn_like(each) for name, each in load_file(file).items()}, file, {"format": "pt"})


def rows(directory: Path) -> list[bytes]:
    return [path.read_bytes() for name in KEPT for path in sorted(directory.glob(f"*/*/*/seed-*/{name}"))]


def test_answers_of_equal_weights_are_shared_and_those_of_other_weights_refused(
    train: Callable[..., Path], encoder: Path, tmp_path: Path
) -> None:
    first = train(*WORDS, f"text_embedder.model={encoder}", packs=[(0,)])
    study_models.settle(study_models.folder(first))
    assert [model.answers.calls > 0 for model in exchange.stats(first).models] == [True]
    replay = {"mode": "replay", "cassette": str(first)}
    copied = Path(shutil.copytree(encoder, tmp_path / "copy"))
    again = train(*WORDS, f"text_embedder.model={copied}", packs=[(0,)], models=replay)
    assert rows(again) == rows(first) and len(rows(first)) == len(KEPT)
    ids = [[path.parent.name for path in each.glob("*/*/*/cell.json")] for each in (first, again)]
    assert ids[0] == ids[1] and len(ids[0]) == 1
    words = [*WORDS, "profile=smoke", f"text_embedder.model={encoder}"]
    (before,) = matrix.plan(words).cells
    overwrite(encoder)
    (after,) = matrix.plan(words).cells
    assert after.id != before.id
    both = [cell.section("text_embedder").digest for cell in (before, after)]
    with pytest.raises(UserError, match=rf"text_embedder\.model={encoder} .*{both[0]}.*{both[1]} now"):
        study.carry_out(matrix.plan([*words, f"output={first}"]))
    anew = [f"output={tmp_path / 'anew'}", f"models.cassette={first}", "models.mode=replay"]
    with pytest.raises(
        UserError, match=rf"no recorded call in the role 'text_embedder' .*{both[1]}, only of {both[0]}"
    ):
        study.carry_out(matrix.plan([*words, *anew]))
    assert not (tmp_path / "anew").exists()


def test_a_study_that_was_recorded_by_the_name_of_its_model_replays_under_its_old_id(
    train: Callable[..., Path], encoder: Path, tmp_path: Path
) -> None:
    words = (*WORDS, f"text_embedder.model={encoder}")
    first = train(*words, "text_embedder.digest=null", packs=[(0,)])
    study_models.settle(study_models.folder(first))
    (file,) = first.glob("*/*/*/cell.json")
    content = read_json(file)
    del content["settings"]["text_embedder.digest"]  # as such a study has it
    write_json(file, content)
    anew = [f"output={tmp_path / 'anew'}", f"models.cassette={first}", "models.mode=replay"]
    with pytest.raises(UserError, match=r"recorded by its name alone; replay that with text_embedder\.digest=null"):
        study.carry_out(matrix.plan([*words, "profile=smoke", *anew]))
    replay = {"mode": "replay", "cassette": str(first)}
    said = train(*words, "text_embedder.digest=null", packs=[(0,)], models=replay)
    shutil.rmtree(encoder)
    gone = train(*words, packs=[(0,)], models=replay)
    for again in (said, gone):
        assert [path.parent.name for path in again.glob("*/*/*/cell.json")] == [file.parent.name]
        assert rows(again) == rows(first)
