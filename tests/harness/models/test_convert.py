from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from guidebench.harness.commands.cli import main
from guidebench.harness.errors import UserError
from guidebench.harness.models.convert import RN50, convert


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def test_nested_and_wrapped_weights_become_plain_ones(tmp_path: Path) -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    inside = {"module.model.a": weight, "module.model.b": weight.T, "module.model.step": torch.tensor(3)}
    source = saved(tmp_path / "model.pt", {"liv": inside, "epoch": 7, "optimizer": {"state": {}}})
    done = convert(source, tmp_path / "out.safetensors")
    assert (done.tensors, done.parameters, done.architecture) == (3, 13, "")
    with safe_open(tmp_path / "out.safetensors", "pt") as read:
        assert set(read.keys()) == {"a", "b", "step"}
        assert torch.equal(read.get_tensor("b"), weight.T) and read.get_tensor("step") == 3


class Opened:
    """What a hostile checkpoint holds: opening it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    source = saved(tmp_path / "model.pt", {"weights": torch.ones(1), "extra": Opened(tmp_path / "ran")})
    with pytest.raises(UserError, match="could run code"):
        convert(source, tmp_path / "out.safetensors")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out.safetensors").exists()


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("weights")
    for source, said in (
        (tmp_path / "none.pt", "is no file"),
        (tmp_path / "text.pt", "text.pt"),
        (saved(tmp_path / "empty.pt", {"epoch": 3}), "holds no named tensors"),
    ):
        with pytest.raises(UserError, match=said):
            convert(source, tmp_path / "out.safetensors")


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.safetensors").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        convert(saved(tmp_path / "model.pt", {"a": torch.ones(1)}), tmp_path / "out.safetensors")
    assert (tmp_path / "out.safetensors").read_text() == "mine"


def test_clips_rn50_is_known_by_its_shapes(tmp_path: Path) -> None:
    """Names of the published architecture, one number each; 1024 features."""
    open_clip = pytest.importorskip("open_clip")
    with torch.device("meta"):
        names = open_clip.model.CLIP(**open_clip.get_model_config("RN50")).state_dict()
    weights = {f"module.model.{name}": torch.zeros(1) for name in names}
    weights["module.model.visual.attnpool.c_proj.weight"] = torch.zeros(1024, 1)
    done = convert(saved(tmp_path / "model.pt", {"liv": weights}), tmp_path / "out.safetensors")
    assert done.architecture == RN50


def test_the_command_converts_a_model_that_then_embeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ResNet CLIP of open_clip's with few channels; the vectors are those of the model that was saved."""
    open_clip = pytest.importorskip("open_clip")
    pytest.importorskip("transformers")
    import asyncio

    import numpy as np

    from guidebench.harness.models.backends.transformers_.loaded import Source
    from guidebench.harness.models.backends.transformers_.model import TransformersModel
    from guidebench.harness.models.calls import EmbedCall

    config = {
        "embed_dim": 24,
        "quick_gelu": True,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    (tmp_path / "tiny-rn.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-rn.json")
    model = open_clip.create_model("tiny-rn", load_weights=False).eval()
    saved(tmp_path / "model.pt", {"liv": {f"module.model.{name}": t for name, t in model.state_dict().items()}})
    file = tmp_path / "liv.safetensors"
    assert main(["models", "convert", str(tmp_path / "model.pt"), str(file), "--architecture", "tiny-rn"]) == 0
    assert "name it as a model" in capsys.readouterr().out
    asked = TransformersModel(Source(str(file), dtype="float32"))
    texts, images = (
        ("open the door", "a key"),
        tuple(np.random.default_rng(0).integers(0, 256, (2, 80, 70, 3), np.uint8)),
    )
    found = [asyncio.run(asked.answer(EmbedCall(items))) for items in (texts, images)]
    with torch.inference_mode():
        expected = model.encode_text(open_clip.get_tokenizer("tiny-rn")(list(texts)))
    assert np.allclose(found[0].value, expected.numpy(), atol=1e-5)
    assert found[1].value.shape == (2, 24) and not np.allclose(*found[1].value)
    assert found[0].usage.tokens_in == 5 + 4 and found[1].usage.images == 2
    with pytest.raises(UserError, match="reads no images"):
        TransformersModel(Source(str(file), dtype="float32"))._judging  # noqa: B018


def test_a_single_file_that_does_not_say_what_it_is_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    from guidebench.harness.models.backends.transformers_.loaded import Source
    from guidebench.harness.models.backends.transformers_.loading import load

    convert(saved(tmp_path / "model.pt", {"a": torch.ones(1)}), tmp_path / "out.safetensors")
    with pytest.raises(UserError, match="does not say what it is"):
        load(Source(str(tmp_path / "out.safetensors")))
    with pytest.raises(UserError, match="is no file"):
        load(Source(str(tmp_path / "none.safetensors")))
