import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open

from guidebench.harness.commands.cli import main
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import gguf_files
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from guidebench.harness.models.calls import ChoiceCall, EmbedCall, Message
from guidebench.harness.models.chats.transformers_ import Transformers as ChatModel
from guidebench.harness.models.convert import RN50, convert
from guidebench.harness.models.embedders.transformers_ import Transformers
from tests.refusals import check_refused


def save_checkpoint(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


def test_nested_and_wrapped_weights_become_plain_ones(tmp_path: Path) -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    inside = {"module.model.a": weight, "module.model.b": weight.T, "module.model.step": torch.tensor(3)}
    source = save_checkpoint(tmp_path / "model.pt", {"liv": inside, "epoch": 7, "optimizer": {"state": {}}})
    done = convert(source, tmp_path / "out.safetensors")
    assert (done.tensors, done.parameters, done.architecture) == (3, 13, "")
    with safe_open(tmp_path / "out.safetensors", "pt") as tensors:
        assert set(tensors.keys()) == {"a", "b", "step"}
        assert torch.equal(tensors.get_tensor("b"), weight.T) and tensors.get_tensor("step") == 3


class WritesOnLoad:
    """The content of a hostile checkpoint: unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    source = save_checkpoint(tmp_path / "model.pt", {"weights": torch.ones(1), "extra": WritesOnLoad(tmp_path / "ran")})
    blocked = (
        r"could run code of its author's, so it is not opened \([^()]* GLOBAL posix.mkdir [^()]*\); ask for a check"
    )
    check_refused(blocked, convert, source, tmp_path / "out.safetensors")
    source = save_checkpoint(tmp_path / "printing.pt", {"weights": torch.ones(1), "extra": print})
    with pytest.raises(
        UserError, match=r"it is not opened \(Unsupported global: GLOBAL print [^()]*\); ask for a check"
    ):
        convert(source, tmp_path / "out.safetensors")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out.safetensors").exists()


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("weights")
    for source, message in (
        (tmp_path / "none.pt", "is no file"),
        (tmp_path / "text.pt", "text.pt"),
        (save_checkpoint(tmp_path / "empty.pt", {"epoch": 3}), "holds no named tensors"),
    ):
        check_refused(message, convert, source, tmp_path / "out.safetensors")


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.safetensors").write_text("mine")
    check_refused(
        "exists", convert, save_checkpoint(tmp_path / "model.pt", {"a": torch.ones(1)}), tmp_path / "out.safetensors"
    )
    assert (tmp_path / "out.safetensors").read_text() == "mine"


def test_clips_rn50_is_known_by_its_shapes(tmp_path: Path) -> None:
    """The published architecture's names with one number each; 1024 features."""
    open_clip = pytest.importorskip("open_clip")
    with torch.device("meta"):
        names = open_clip.model.CLIP(**open_clip.get_model_config("RN50")).state_dict()
    weights = {f"module.model.{name}": torch.zeros(1) for name in names}
    weights["module.model.visual.attnpool.c_proj.weight"] = torch.zeros(1024, 1)
    done = convert(save_checkpoint(tmp_path / "model.pt", {"liv": weights}), tmp_path / "out.safetensors")
    assert done.architecture == RN50
    pytest.importorskip("transformers")
    assert Transformers(model="liv").dimensions() == 1024


def as_liv(model: Any, wrapping: str) -> dict[str, Any]:
    """Return a checkpoint as LIV's code writes it: all but norms and embeddings in half precision (the model is rounded
    likewise), and the optimiser's state beside it."""
    half = (torch.nn.Conv2d, torch.nn.Linear, torch.nn.MultiheadAttention)
    halved = [tensor for part in model.modules() if isinstance(part, half) for tensor in part.parameters()]
    for tensor in halved:
        tensor.data = tensor.data.half().float()
    small = {id(tensor) for tensor in halved}
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    weights = {
        f"{wrapping}{name}": tensors[name].detach().half() if id(tensors[name]) in small else tensors[name].detach()
        for name in model.state_dict()
    }
    moments = {at: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2), "exp_avg_sq": torch.ones(2)} for at in (0, 1)}
    optimizer = {"state": moments, "param_groups": [{"lr": 1e-5, "betas": (0.9, 0.98), "params": [0, 1]}]}
    return {"liv": weights, "optimizer": optimizer, "global_step": 7}


def embed(model: Any, texts_or_images: tuple[Any, ...]) -> Any:
    call = EmbedCall(texts_or_images)
    reply = asyncio.run(model.answer(call))
    assert call.fault(reply.value) == ""
    return reply


@pytest.mark.parametrize("wrapping", ("module.model.", "model."))
def test_the_command_converts_a_checkpoint_of_livs_form_that_then_embeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrapping: str
) -> None:
    """The model is open_clip's ResNet CLIP with few channels; the vectors equal those of the saved model. The published
    LIV has the longer prefix, of DataParallel; its training code writes the shorter one."""
    open_clip = pytest.importorskip("open_clip")
    pytest.importorskip("transformers")
    config = {
        "embed_dim": 24,
        "quick_gelu": True,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    (tmp_path / "tiny-rn.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-rn.json")
    torch.manual_seed(0)
    model = open_clip.create_model("tiny-rn", load_weights=False).eval()
    for name, tensor in model.visual.named_parameters():
        if name.endswith("bn3.weight"):
            torch.nn.init.ones_(tensor)  # zero at first, which lets little of an image through
    save_checkpoint(tmp_path / "model.pt", as_liv(model, wrapping))
    file = tmp_path / "liv.safetensors"
    assert main(["models", "convert", str(tmp_path / "model.pt"), str(file), "--architecture", "tiny-rn"]) == 0
    assert "name it as a model" in capsys.readouterr().out
    embedder = Transformers(model=str(file))
    embedder.ready()
    assert embedder.dimensions() == 24
    embedding_model: Any = embedder.spawn_model("cpu")
    texts = ("open the door", "a key")
    ramp = np.linspace(0, 255, 80 * 70 * 3).astype(np.uint8).reshape(80, 70, 3)
    images = (ramp, np.ascontiguousarray(ramp[::-1, :, [1, 0, 2]] // 4))
    words, frames = embed(embedding_model, texts), embed(embedding_model, images)
    prepare = open_clip.image_transform(64, is_train=False, resize_mode="shortest")
    with torch.inference_mode():
        expected = model.encode_text(open_clip.get_tokenizer("tiny-rn")(list(texts)))
        image_vectors = model.encode_image(torch.stack([prepare(Image.fromarray(image)) for image in images]))
    assert np.allclose(words.value, expected.numpy(), atol=1e-5) and not np.allclose(*words.value, atol=1e-3)
    assert np.allclose(frames.value, image_vectors.numpy(), atol=1e-5) and not np.allclose(*frames.value, atol=1e-3)
    assert words.usage.tokens_in == 5 + 4 and frames.usage.images == 2
    with pytest.raises(UserError, match="reads no images"):
        embedding_model._judging  # noqa: B018


def test_a_model_that_is_not_converted_yet_says_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    message = (
        r"hf download jasonyma/LIV model\.pt --local-dir \.`.*`bench models convert model\.pt liv\.safetensors`, "
        r"and name liv\.safetensors as the model"
    )
    check_refused(message, Transformers(model="liv").ready)
    monkeypatch.chdir(tmp_path)
    check_refused(
        r"there is no file liv\.safetensors; `bench models convert`", Transformers(model="liv.safetensors").ready
    )
    save_checkpoint(tmp_path / "model.pt", {"weights": torch.ones(1), "extra": WritesOnLoad(tmp_path / "ran")})
    check_refused(
        r"model\.pt is no safetensors file; `bench models convert model\.pt", Transformers(model="model.pt").ready
    )
    assert not (tmp_path / "ran").exists()


def test_a_single_file_that_does_not_say_what_it_is_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    convert(save_checkpoint(tmp_path / "model.pt", {"a": torch.ones(1)}), tmp_path / "out.safetensors")
    check_refused("does not say what it is", load, Source(str(tmp_path / "out.safetensors")))
    check_refused("is no file", load, Source(str(tmp_path / "none.safetensors")))


def of_s3d(path: Path) -> Path:
    """Write the three tensors by which an S3D checkpoint is recognised."""
    names = ("conv1.conv1.weight", "mixed_5c.conv_b0.conv1.weight", "text_module.word_embd.weight")
    return save_checkpoint(path, {name: torch.ones(2, 2) for name in names})


@pytest.mark.parametrize("form", ["npy", "txt"])
def test_s3d_takes_its_words_along(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, source, target = tmp_path / f"words.{form}", of_s3d(tmp_path / "s3d.pth"), tmp_path / "s3d.safetensors"
    if form == "npy":
        np.save(words, np.array(["robot", "Tür"]))
    else:
        words.write_text("robot\nTür\n", encoding="utf-8")
    assert main(["models", "convert", str(source), str(target), "--words", str(words)]) == 0
    assert "s3d: name it as a model that embeds" in capsys.readouterr().out
    with safe_open(target, "pt") as tensors:
        assert tensors.metadata()["network"] == "s3d" and "open_clip" not in tensors.metadata()
        assert bytes(tensors.get_tensor("words").numpy()).decode() == "robot\nTür"


def test_s3d_without_words_and_words_without_s3d_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("robot")
    with pytest.raises(UserError, match=r"needs the list of its words.*--words s3d_dict\.npy"):
        convert(of_s3d(tmp_path / "s3d.pth"), tmp_path / "out.safetensors")
    with pytest.raises(UserError, match="is not S3D"):
        convert(
            save_checkpoint(tmp_path / "m.pt", {"a": torch.ones(1)}),
            tmp_path / "out.safetensors",
            words=tmp_path / "words.txt",
        )
    assert not (tmp_path / "out.safetensors").exists()


def test_a_word_list_that_would_run_code_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "words.npy", np.array([WritesOnLoad(tmp_path / "ran")], object), allow_pickle=True)
    with pytest.raises(UserError, match=r"is no list of words .* a pickled list is not opened"):
        convert(of_s3d(tmp_path / "s3d.pth"), tmp_path / "out.safetensors", words=tmp_path / "words.npy")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out.safetensors").exists()


def test_what_is_no_word_list_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.arange(3))
    np.save(tmp_path / "breaks.npy", np.array(["a\nb"]))
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    for name, message in (
        ("numbers.npy", "int64"),
        ("breaks.npy", "line break"),
        ("bytes.txt", "decode"),
        ("no", "no file"),
    ):
        check_refused(
            message, convert, of_s3d(tmp_path / "s3d.pth"), tmp_path / "out.safetensors", words=tmp_path / name
        )


def test_a_gguf_file_becomes_a_directory_that_chats_and_chooses_alike(
    tiny: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logits and choices of file and directory are equal in each bit."""
    pytest.importorskip("gguf")
    source, target = tiny("gguf") / "model.gguf", tmp_path / "tiny"
    numbers = gguf_files.header(source).parameters
    assert main(["models", "convert", str(source), str(target)]) == 0
    assert f"{numbers:,} numbers, llama: name it as a model that chats" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"tiny"}
    call = ChoiceCall((Message("user", ("Yes or no?",)),), "Answer:", (" Yes", " no, it is not"))
    logits, choices, texts = [], [], []
    for model in (str(source), str(target)):
        chat: Any = ChatModel(model=model, dtype="float32")
        chat.ready()
        spawned = chat.spawn_model("cpu")
        choices.append(asyncio.run(spawned.answer(call)).value)
        loaded = load(Source(model, dtype="float32"))
        texts.append(
            loaded.tokenizer.apply_chat_template([{"role": "user", "content": "no?"}], add_generation_prompt=True)
        )
        with torch.inference_mode():
            logits.append(loaded.model(torch.tensor([[5, 40, 7, 101, 9]])).logits)
    assert torch.equal(*logits) and np.array_equal(*choices) and texts[0] == texts[1]


def test_a_gguf_file_that_cannot_be_converted_leaves_nothing(tiny: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    source, damaged = tiny("gguf") / "model.gguf", tmp_path / "damaged.gguf"
    damaged.write_bytes(source.read_bytes()[:-4])
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(source.read_bytes().replace(b"llama", b"lamma"))
    (tmp_path / "words.txt").write_text("robot")
    for file, target, options, message in (
        (damaged, "out", {}, r"damaged\.gguf is no GGUF file that can be read"),
        (unknown, "out", {}, r"unknown\.gguf.*lamma"),
        (source, "out.safetensors", {}, r"becomes a directory, and .*out\.safetensors has the name of a file"),
        (source, "out", {"architecture": "RN50"}, "leave --architecture and --words out"),
        (source, "out", {"words": tmp_path / "words.txt"}, "leave --architecture and --words out"),
        (source, "words.txt", {}, "words.txt exists; name a directory that does not"),
    ):
        with pytest.raises(UserError, match=message):
            convert(file, tmp_path / target, **options)  # type: ignore[arg-type]
    assert {file.name for file in tmp_path.iterdir()} == {"damaged.gguf", "unknown.gguf", "words.txt"}
