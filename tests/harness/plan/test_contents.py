"""A local model is identified by its bytes: where the digest of its files comes from, and what is refused.

The models are directories with a model's files, which are never loaded.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.identity.cells import record, recorded, rehashed, write_cell
from guidebench.harness.loop import backends
from guidebench.harness.loop.job import Job
from guidebench.harness.models import cassette_file, study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import EmbedCall
from guidebench.harness.plan import matrix, variations
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import readiness
from tests.refusals import check_refused

WORDS = (
    "suite=housekeep", "method=ellm_exploration", "profile=smoke", "goals=scripted", "text_embedder=transformers",
    "guide.width=32", "seeds=1",
)  # fmt: skip
OTHER_DIGEST = "f" * 64


def encoder(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_bytes(b"words")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return encoder(tmp_path / "models" / "encoder")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty directory, where no earlier study states a digest."""
    monkeypatch.chdir(tmp_path)


def plan_cell(model: Path | str, *words: str) -> Cell:
    (cell,) = matrix.plan([*WORDS, f"text_embedder.model={model}", *words]).cells
    return cell


def digest_and_layer(cell: Cell) -> tuple[str | None, str]:
    """Return the digest of the cell's encoder and the layer that set it."""
    value = cell.settings["text_embedder.digest"]
    return value.value, value.layer


def on_record(cell: Cell, study: Path) -> Path:
    """Write a study with a cell's record and the directory of a run, and return it."""
    write_cell(StudyDirectory(study), cell)
    (study / cell.directory / "seed-0").mkdir()
    return study


def cassette(file: Path, *identities: dict[str, Any], role: str = "text_embedder") -> Path:
    """Write a cassette with one answer of each of these models in a role."""
    cassette_file.create(file)
    with closing(cassette_file.opened(file, "rw")) as db, cassette_file.transaction(db):
        for number, identity in enumerate(identities):
            request = EmbedCall((f"text {number}",)).request(identity, None)
            cassette_file.insert(db, "requests", [(request.key, request.text)])
            usage = (1, 1, 0, 0, 0.0, 0.0)
            value = (request.key, "c/0", '{"array":"float32","shape":[1,1]}', role, "", number, 0, "m", "{}", *usage)
            cassette_file.insert(db, "answers", [value])
            cassette_file.insert(db, "arrays", [(request.key, "c/0", bytes(4))])
    return file


# Identity


def test_equal_bytes_are_one_cell_wherever_they_are_and_other_bytes_another(model: Path, tmp_path: Path) -> None:
    noise_model, copied = encoder(tmp_path / "noise", b"noise!!"), Path(shutil.copytree(model, tmp_path / "copy"))
    cells = matrix.plan([*WORDS, f"text_embedder.model={model},{copied},{noise_model}"]).cells
    assert [digest_and_layer(cell) for cell in cells] == [
        (digests.of_model(place), "files") for place in (model, noise_model)
    ]
    before = plan_cell(model)
    (model / "model.safetensors").write_bytes(b"noise!!")
    assert plan_cell(model).id == cells[1].id != cells[0].id == before.id == plan_cell(copied).id


def test_a_record_holds_the_digest_and_its_path_is_in_no_id(model: Path) -> None:
    cell = plan_cell(model)
    cell_record = record(cell)
    assert cell_record["settings"]["text_embedder.digest"]["value"] == digests.of_model(model)
    assert rehashed(cell_record) == recorded(cell_record).id == cell.id
    cell_record["settings"]["text_embedder.model"]["value"] = "/elsewhere"
    assert rehashed(cell_record) == cell.id


def test_a_record_of_before_there_were_digests_keeps_the_id_under_its_models_name(model: Path) -> None:
    by_name = plan_cell(model, "text_embedder.digest=null")
    assert by_name.id != plan_cell(model).id
    cell_record = record(by_name)
    del cell_record["settings"]["text_embedder.digest"]
    assert rehashed(cell_record) == recorded(cell_record).id == by_name.id
    cell_record["settings"]["text_embedder.model"]["value"] = "/elsewhere"
    assert rehashed(cell_record) != by_name.id


def test_only_a_sha256_is_a_digest(model: Path) -> None:
    check_refused(r"text_embedder\.digest=abc: expected a SHA-256", plan_cell, model, "text_embedder.digest=abc")


# Row names


def test_a_row_is_named_by_recipe_repository_or_digest_and_never_by_a_path(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digests.of_model(model)
    assert digest is not None and plan_cell(model).model == f"scripted_goals+local-{digest[:8]}"
    assert plan_cell("models/encoder").model == plan_cell(model).model, "the path looks like the name of a repository"
    download = tmp_path / "hub" / "models--me--my-encoder" / "snapshots" / "1a2b"
    shutil.copytree(model, download)
    assert plan_cell(download).model == "scripted_goals+my-encoder"
    monkeypatch.setattr(recipes, "of_digest", {digest: recipes.recipe("sbert")}.get)
    assert plan_cell(model).model == "scripted_goals+sbert"


# Where a digest comes from


def test_files_that_are_not_those_of_the_command_are_refused_with_both_digests(model: Path) -> None:
    digest = digests.of_model(model)
    assert plan_cell(model, f"text_embedder.digest={digest}").id == plan_cell(model).id
    says = (
        rf"text_embedder\.digest={OTHER_DIGEST} is given, and the files of text_embedder\.model=.* the digest {digest}"
    )
    check_refused(says, plan_cell, model, f"text_embedder.digest={OTHER_DIGEST}")
    replayed = plan_cell(model, f"text_embedder.digest={OTHER_DIGEST}", "models.mode=replay")
    assert digest_and_layer(replayed) == (OTHER_DIGEST, "command line"), "nothing is loaded"


def test_without_files_it_comes_from_command_record_recipe_or_recorded_calls_in_this_order(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = plan_cell(model)
    calls = cassette(tmp_path / "calls.sqlite", {"backend": "transformers", "digest": "c" * 64})
    study = on_record(cell, tmp_path / "study")
    shutil.rmtree(model)
    assert digest_and_layer(plan_cell(model)) == (None, "default")
    words = [f"models.cassette={calls}"]
    assert digest_and_layer(plan_cell(model, *words)) == ("c" * 64, "cassette")
    published = recipes.recipe("sbert")
    assert published is not None
    monkeypatch.setattr(recipes, "recipe", lambda name: replace(published, digest="b" * 64, width=32))
    assert digest_and_layer(plan_cell(model, *words)) == ("b" * 64, "recipe")
    replanned = plan_cell(model, *words, f"output={study}")
    assert digest_and_layer(replanned) == (digest_and_layer(cell)[0], "record") and replanned.id == cell.id
    assert digest_and_layer(plan_cell(model, *words, f"output={study}", f"text_embedder.digest={OTHER_DIGEST}")) == (
        OTHER_DIGEST,
        "command line",
    )


def test_a_study_with_a_name_of_its_ids_tells_its_digest_too(model: Path) -> None:
    cell = plan_cell(model)
    on_record(cell, Path("runs") / "housekeep-ellm_exploration-smoke-123456")
    shutil.rmtree(model)
    assert plan_cell(model).id == cell.id
    assert digest_and_layer(plan_cell(model, "guide.weight=2"))[0] is None, "the record of another cell is not used"


def test_two_digests_on_record_are_refused_by_name(model: Path, tmp_path: Path) -> None:
    identities = [{"backend": "transformers", "digest": letter * 64} for letter in "cd"]
    calls = cassette(tmp_path / "calls.sqlite", *identities)
    shutil.rmtree(model)
    says = f"of two models in the role 'text_embedder', {'c' * 64} and {'d' * 64}.*say which one with text_embedder"
    check_refused(says, plan_cell, model, f"models.cassette={calls}")


def test_a_call_that_is_recorded_under_another_role_tells_the_digest_of_an_equal_model(
    model: Path, tmp_path: Path
) -> None:
    shutil.rmtree(model)
    alike = {"backend": "transformers", "dtype": "float32", "trust_remote_code": False, "pool": "auto"}
    alike |= {"text_tokens": None, "digest": "c" * 64}
    for file, identity in (("same", alike), ("other", alike | {"pool": "mean"})):
        calls = cassette(tmp_path / f"{file}.sqlite", identity, role="reader")
        digest = digest_and_layer(plan_cell(model, f"models.cassette={calls}"))[0]
        assert digest == ("c" * 64 if file == "same" else None)


# Without a digest


def test_a_cell_whose_id_is_not_known_is_estimated_and_cannot_start(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # wide enough that lines are not broken
    (model / "model.safetensors").unlink()
    command = ["run", *WORDS, f"text_embedder.model={model}"]
    assert cli.main([*command, "--dry-run"]) == 1
    output = capsys.readouterr().out
    assert f"id: known once {model} is here" in output and "core-hours" in output and "about" in output
    assert plan_cell(model).id not in output, "this id is not the cell's"
    assert f"missing: text_embedder.model={model}: its files are not here, or not all of them" in output
    assert cli.main([*command, "--dry-run", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["cells"]
    assert (row["cell"], row["id"]) == (None, f"known once {model} is here") and row["hours"] > 0
    assert cli.main(command) == 2
    assert "nothing identifies it" in capsys.readouterr().err and not Path("runs").exists()
    assert cli.main(["show", *WORDS, f"text_embedder.model={model}"]) == 0
    assert f"cell: known once {model} is here" in capsys.readouterr().out


# Settings that follow from the files


CHOOSING = ("suite=housekeep", "method=model_as_agent", "profile=smoke", "performer=transformers", "seeds=1")


def weights(folder: Path, parameters: int = 4) -> Path:
    """Write a model whose weights are so many numbers, in a file that can be read."""
    encoder(folder)
    header = json.dumps({"x": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 4 * parameters]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 * parameters))
    return folder


def plan_chooser(model: Path | str, *words: str) -> Cell:
    (cell,) = matrix.plan([*CHOOSING, f"performer.model={model}", *words]).cells
    return cell


def dtype_and_layer(cell: Cell) -> tuple[str, str]:
    dtype = cell.settings["performer.dtype"]
    return dtype.value, dtype.layer


@pytest.mark.parametrize(("model", "dtype"), [("smollm2_135m", "float32"), ("qwen2_5_vl_7b", "bfloat16")])
def test_the_precision_of_a_recipe_is_resolved_before_the_id(model: str, dtype: str) -> None:
    usual, typed, auto = (
        plan_chooser(model, *words) for words in ((), (f"performer.dtype={dtype}",), ("performer.dtype=auto",))
    )
    assert dtype_and_layer(usual) == dtype_and_layer(auto) == (dtype, "performer 'transformers'")
    assert usual.id == typed.id == auto.id and record(usual)["settings"]["performer.dtype"]["value"] == dtype
    assert usual.variant == "" and "dtype=auto" not in auto.variant
    assert (
        usual.section("performer").dtype
        == dtype
        != plan_chooser(model, "performer.dtype=float16").settings["performer.dtype"].value
    )


def test_a_model_without_a_recipe_has_the_precision_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = weights(tmp_path / "models" / "chooser", parameters=5_000)
    assert dtype_and_layer(plan_chooser(model))[0] == "float32"
    monkeypatch.setattr(recipes, "SMALL", 5e-6)
    cell = plan_chooser(model)
    assert dtype_and_layer(cell)[0] == "bfloat16" and "5e-06 billion" in cell.settings["performer.dtype"].source
    (model / "adapter_model.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    (model / "model.safetensors").unlink()
    monkeypatch.setattr(recipes, "SMALL", 1)
    assert dtype_and_layer(plan_chooser(model))[0] == "bfloat16", "an adapter says nothing of the model beneath it"


def test_where_the_files_are_not_here_record_or_recorded_calls_tell_the_precision(tmp_path: Path) -> None:
    model = weights(tmp_path / "models" / "chooser")
    cell = plan_chooser(model)
    study = on_record(cell, tmp_path / "study")
    identity = {
        "backend": "transformers",
        "trust_remote_code": False,
        "dtype": "float32",
        "digest": cell.digests["performer"],
    }
    calls = cassette(tmp_path / "calls.sqlite", identity, role="performer")
    both = cassette(tmp_path / "both.sqlite", identity, {**identity, "dtype": "float16"}, role="performer")
    shutil.rmtree(model)
    assert dtype_and_layer(plan_chooser(model)) == ("bfloat16", "performer 'transformers'")
    replanned = plan_chooser(model, f"output={study}")
    assert dtype_and_layer(replanned) == ("float32", "record") and replanned.id == cell.id
    replayed = plan_chooser(model, f"models.cassette={calls}")
    assert dtype_and_layer(replayed) == ("float32", "cassette") and replayed.id == cell.id
    says = "answers with performer.dtype=float16 and float32, .* say which one with performer.dtype="
    check_refused(says, plan_chooser, model, f"models.cassette={both}")


def test_a_choice_is_not_made_by_a_model_that_reasons_first() -> None:
    usual, off, choosing = (
        plan_chooser("smollm2_135m", *words)
        for words in ((), ("performer.thinking=off",), ("performer.thinking=off", "performer.answer=choice"))
    )
    assert len({usual.id, off.id, choosing.id}) == 3 and "performer.thinking=off" in off.variant
    before = record(usual)
    del before["settings"]["performer.thinking"]
    assert rehashed(before) == usual.id, "a record of before there was the setting keeps its id"
    says = (
        r"performer\.thinking=64 has the model reason .* set performer\.thinking=off, or leave performer\.answer=choice"
    )
    check_refused(says, plan_chooser, "smollm2_135m", "performer.thinking=64", "performer.answer=choice")
    check_refused("performer.thinking=0: expected", plan_chooser, "smollm2_135m", "performer.thinking=0")


# Runs on record


@pytest.fixture
def lacking_reasons() -> Callable[..., list[str]]:
    def missing(model: Path, study: Path, *words: str) -> list[str]:
        plan = matrix.plan([*WORDS, f"text_embedder.model={model}", f"output={study}", *words])
        return [reason for reason in readiness.missing(plan, study) if "digest" in reason]

    return missing


def test_runs_of_a_model_that_differs_now_are_refused_with_both_digests(
    model: Path, tmp_path: Path, lacking_reasons: Callable[..., list[str]]
) -> None:
    study = on_record(plan_cell(model), tmp_path / "study")
    assert not lacking_reasons(model, study)
    before = digests.of_model(model)
    (model / "model.safetensors").write_bytes(b"noise!!")
    (reason,) = lacking_reasons(model, study)
    assert f"text_embedder.model={model} whose files had the digest {before}" in reason
    assert f"they have {digests.of_model(model)} now" in reason
    assert not lacking_reasons(encoder(tmp_path / "another", b"other"), study), "another name is another model"


def test_runs_that_were_recorded_by_name_go_on_only_where_that_is_said(
    model: Path, tmp_path: Path, lacking_reasons: Callable[..., list[str]]
) -> None:
    by_name = "text_embedder.digest=null"
    (reason,) = lacking_reasons(model, tmp_path / "study", by_name)
    assert "only a study whose runs were recorded by the name of the model goes on so" in reason
    study = on_record(plan_cell(model, by_name), tmp_path / "study")
    (reason,) = lacking_reasons(model, study)
    assert "recorded by this name alone" in reason and f"with {by_name}" in reason
    assert not lacking_reasons(model, study, by_name)
    shutil.rmtree(model)
    assert plan_cell(model, f"output={study}").id == plan_cell(model, by_name).id


def test_a_replay_with_calls_of_another_model_is_refused(
    model: Path, tmp_path: Path, lacking_reasons: Callable[..., list[str]]
) -> None:
    calls = cassette(tmp_path / "calls.sqlite", {"backend": "transformers", "digest": OTHER_DIGEST})
    words = ("models.mode=replay", f"models.cassette={calls}")
    (reason,) = lacking_reasons(model, tmp_path / "study", *words)
    assert str(digests.of_model(model)) in reason and f"only of {OTHER_DIGEST}" in reason
    assert not lacking_reasons(model, tmp_path / "study", *words, f"text_embedder.digest={OTHER_DIGEST}")


def test_the_digest_of_a_model_that_an_ablation_replaces_does_not_stay(tmp_path: Path) -> None:
    models = [encoder(tmp_path / name, name.encode()) for name in ("one", "other")]
    cell = plan_cell(models[0], f"text_embedder.digest={digests.of_model(models[0])}")
    plan = matrix.plan([*WORDS, f"text_embedder.model={models[0]}"])
    layer = {"text_embedder.model": str(models[1])}
    varied = variations._varied(cell, layer, "ablation", variations.Digests(plan.execution))
    assert digest_and_layer(varied) == (digests.of_model(models[1]), "files")


def test_a_worker_loads_no_other_files_than_those_of_its_digest(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file with a remembered digest is read."""
    config, loads = plan_cell(model).section("text_embedder"), list[str]()
    monkeypatch.setattr(type(config), "spawn_model", lambda self, device: loads.append(device))
    study_models.load_model(config, "cpu")
    (model / "model.safetensors").write_bytes(b"noise!!")
    other = digests.of_model(model)
    check_refused(
        rf"its files have the digest {other}, .* on record is {config.digest}", study_models.load_model, config, "cpu"
    )
    assert loads == ["cpu"]


def test_outside_training_too_no_other_model_answers_under_a_recorded_digest(model: Path) -> None:
    """This is `bench eval RUN models.mode=record`, long after the run."""
    cell = plan_cell(model)
    (model / "model.safetensors").write_bytes(b"noise!!")
    job = Job("eval", "", record(cell), (0,), models={"mode": "record"})
    with (
        pytest.raises(UserError, match=rf"on record is {cell.digests['text_embedder']}"),
        backends.queues(["text_embedder"], job, cell, None),  # type: ignore[arg-type]
    ):
        pass
