"""Digests of model files: which files they cover, in which form, and that each file is read once."""

import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.identity import digests
from guidebench.harness.identity.digests import Memory, NamedFile

CONFIG = {"model_type": "bert", "hidden_size": 32}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a directory with the files of a model that digests depend on."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_bytes(b"words")
    return folder


def test_it_is_the_hash_of_a_line_for_each_file_in_the_order_of_their_names(model: Path) -> None:
    config = sha(json.dumps(CONFIG, sort_keys=True).encode())
    lines = f"{config}  config.json\n{sha(b'weights')}  model.safetensors\n{sha(b'words')}  tokenizer.json\n"
    assert digests.of_model(model) == sha(lines.encode())


def test_where_and_by_which_version_a_configuration_was_saved_does_not_count(model: Path) -> None:
    before = digests.of_model(model)
    saved = {"_name_or_path": "/srv/model", "transformers_version": "4.0"}
    (model / "config.json").write_text(json.dumps({**saved, **CONFIG}, indent=4))
    assert digests.of_model(model) == before
    (model / "config.json").write_text(json.dumps({**CONFIG, "text_config": {"hidden_size": 8}}))
    other = digests.of_model(model)
    (model / "config.json").write_text(json.dumps({**CONFIG, "text_config": {"hidden_size": 8, **saved}}))
    assert digests.of_model(model) == other != before, "ignored at any depth, while any other key counts"


READ = (
    "model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "chat_template.json", "chat_template.jinja",
    "additional_chat_templates/tools.jinja", "adapter_config.json",
    "adapter_model.safetensors", "modules.json", "sentence_bert_config.json",
)  # fmt: skip
OTHER = ("README.md", "pytorch_model.bin", "model-of-another.safetensors", "training_args.bin", "unet/config.json")


@pytest.mark.parametrize("name", READ + OTHER)
def test_what_a_loader_reads_counts_and_nothing_else(model: Path, name: str) -> None:
    before = digests.of_model(model)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text('{"other": 1}')
    assert (digests.of_model(model) != before) is (name in READ)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json"]
)
def test_code_counts_where_a_configuration_names_it_as_the_model_s_own(model: Path, name: str) -> None:
    before = digests.of_model(model)
    (model / "modeling_own.py").write_text("scale = 1")
    assert digests.of_model(model) == before, "no configuration refers to the file"
    (model / name).write_text(json.dumps({**CONFIG, "auto_map": {"AutoModel": "modeling_own.Own"}}))
    with_code = digests.of_model(model)
    (model / "modeling_own.py").write_text("scale = 2")
    assert len({before, with_code, digests.of_model(model)}) == 3
    changed = digests.of_model(model)
    (model / "layers.py").write_text("")  # the first file may import it
    assert digests.of_model(model) != changed


def test_split_weights_are_those_of_their_index_and_none_may_be_missing(model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert digests.of_model(model) is None
    parts = {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    (model / "model-1-of-2.safetensors").write_bytes(b"first")
    assert digests.of_model(model) is None
    (model / "model-2-of-2.safetensors").write_bytes(b"second")
    before = digests.of_model(model)
    (model / "model-2-of-2.safetensors").write_bytes(b"other")
    assert None is not before != digests.of_model(model)


def test_links_are_followed(model: Path, tmp_path: Path) -> None:
    linked = tmp_path / "snapshot"
    linked.mkdir()
    for file in model.iterdir():
        (linked / file.name).symlink_to(file)
    assert digests.of_model(linked) == digests.of_model(model)


def test_the_name_of_a_single_file_does_not_count(tmp_path: Path) -> None:
    for name in ("liv.safetensors", "other.safetensors"):
        (tmp_path / name).write_bytes(b"weights")
    expected = sha(f"{sha(b'weights')}  model.safetensors\n".encode())
    assert {digests.of_model(tmp_path / name) for name in ("liv.safetensors", "other.safetensors")} == {expected}


def test_the_configurations_of_a_poolings_modules_count(model: Path) -> None:
    (model / "modules.json").write_text(json.dumps([{"path": ""}, {"path": "1_Pooling"}]))
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    before = digests.of_model(model)
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert digests.of_model(model) != before


def test_the_model_beneath_an_adapter_counts(model: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "model.safetensors").write_bytes(b"base")
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    before = digests.of_model(model)
    (base / "model.safetensors").write_bytes(b"other")
    assert digests.of_model(model) != before


def test_a_pipeline_is_the_folders_that_its_loader_reads(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    for name in ("unet", "vae", "text_encoder", "tokenizer", "scheduler", "safety_checker"):
        (tmp_path / name).mkdir()
    for name in ("unet", "vae"):
        (tmp_path / name / "diffusion_pytorch_model.safetensors").write_bytes(name.encode())
    assert digests.of_model(tmp_path) is None, "the encoder of texts is missing"
    (tmp_path / "text_encoder" / "model.safetensors").write_bytes(b"text")
    hashes = [digests.of_model(tmp_path)]
    for name in ("safety_checker/model.safetensors", "scheduler/scheduler_config.json", "tokenizer/vocab.json"):
        (tmp_path / name).write_text('{"beta": 1}')
        hashes.append(digests.of_model(tmp_path))
    assert hashes[0] is not None
    assert [before == after for before, after in itertools.pairwise(hashes)] == [True, False, False]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of names of files that are read to be hashed."""
    names: list[str] = []
    real = digests.sha256

    def read(file: NamedFile, *rest: object) -> str:
        names.append(file.name)
        return real(file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(digests, "sha256", read)
    return names


def digest_by_cache(cache: Path, file: Path) -> str:
    """Return a file's SHA-256 as a new process computes it that starts with the cache `cache`."""
    ((_, digest),) = Memory(cache).of([NamedFile("weights", file)], "a model")
    return digest


def test_a_file_is_read_once_and_again_when_it_has_changed(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, cache = tmp_path / "weights", tmp_path / "digests.json"
    file.write_bytes(b"first")
    status = file.stat()
    monkeypatch.setattr(digests.time, "time", lambda: status.st_mtime + 60)
    assert digest_by_cache(cache, file) == digest_by_cache(cache, file) == sha(b"first")
    assert reads == ["weights"]
    file.write_bytes(b"other")  # of equal size
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest_by_cache(cache, file) == sha(b"other"), (
        "its change time differs although its modification time does not"
    )
    assert len(reads) == 2


def test_a_file_that_has_just_changed_is_not_remembered(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may change again within the resolution of its modification time."""
    file, cache = tmp_path / "weights", tmp_path / "digests.json"
    file.write_bytes(b"first")
    monkeypatch.setattr(digests.time, "time", lambda: file.stat().st_mtime + 1)
    assert digest_by_cache(cache, file) == digest_by_cache(cache, file) and len(reads) == 2 and not cache.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', '{"format": 1, "files": []}', '{"format": 99}'])
def test_a_damaged_cache_only_costs_time(tmp_path: Path, content: str) -> None:
    (tmp_path / "digests.json").write_text(content)
    (tmp_path / "weights").write_bytes(b"first")
    assert digest_by_cache(tmp_path / "digests.json", tmp_path / "weights") == sha(b"first")


def test_much_is_read_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(3 * 2**20))
    digest_by_cache(tmp_path / "digests.json", file)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(digests, "LARGE", 2**20)
    monkeypatch.setattr(digests, "BLOCK", 2**20)
    monkeypatch.setattr(digests, "PAUSE", 0.0)
    digest_by_cache(tmp_path / "digests.json", file)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "bench: reading 3.0 MiB of a model to identify it; this is done once"
    assert lines[1:] == [f"bench: {count}.0 MiB of 3.0 MiB read" for count in (1, 2, 3)]


def test_a_file_that_cannot_be_read_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: NamedFile, *rest: object) -> str:
        raise PermissionError(13, "Permission denied", str(file.path))

    monkeypatch.setattr(digests, "sha256", refuse)
    with pytest.raises(UserError, match=rf"{model}/config.json cannot be read \(Permission denied\)"):
        digests.of_model(model)
