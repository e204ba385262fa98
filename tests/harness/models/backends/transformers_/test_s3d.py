"""S3D as published equals the same network written with functions; its text tower is computed by hand; its file is read
back."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.s3d import S3D, SIDE, S3DEmbedding, blocks, pooled
from guidebench.harness.models.calls import EmbedCall, VideoCall
from guidebench.harness.models.embedders.transformers_ import Transformers
from tests.harness.models.tiny_models import S3D_WORDS

Weights = dict[str, torch.Tensor]
BLOCKS = ("3b", "3c", "4b", "4c", "4d", "4e", "4f", "5b", "5c")


@pytest.fixture(scope="module")
def weights(tiny: Callable[..., Path]) -> Weights:
    return load_file(tiny("s3d"))


@pytest.fixture(scope="module")
def embedding(tiny: Callable[..., Path]) -> S3DEmbedding:
    return S3DEmbedding(str(tiny("s3d")), "float32", torch.device("cpu"))


def unit(w: Weights, name: str, number: int, x: torch.Tensor, padding: Any) -> torch.Tensor:
    """Apply convolution `number` of a unit, batch norm with training statistics, and ReLU."""
    norm = [
        w[f"{name}.bn{number}.{statistic}"][:, None, None, None]
        for statistic in ("running_mean", "running_var", "weight")
    ]
    x = F.conv3d(x, w[f"{name}.conv{number}.weight"], padding=padding)
    x = (x - norm[0]) / torch.sqrt(norm[1] + 1e-5) * norm[2] + w[f"{name}.bn{number}.bias"][:, None, None, None]
    return x.clamp(min=0)


def separable(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return unit(w, name, 2, unit(w, name, 1, x, (0, 1, 1)), (1, 0, 0))


def gate(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    means = x.flatten(2).mean(2)
    scale = 1 / (1 + torch.exp(-(means @ w[f"{name}.fc.weight"].T + w[f"{name}.fc.bias"])))
    return x * scale.reshape(*scale.shape, 1, 1, 1)


def by_functions(w: Weights, video: torch.Tensor) -> torch.Tensor:
    x = unit(w, "conv1", 1, blocks(video), (1, 2, 2))[:, :, 1:, 1:, 1:]
    x = separable(w, "conv_2c", unit(w, "conv_2b", 1, pooled(x, (1, 3, 3), (1, 2, 2)), 0))
    x = pooled(gate(w, "gating", x), (1, 3, 3), (1, 2, 2))
    for block in BLOCKS:
        if block == "4b":
            x = pooled(x, (3, 3, 3), (2, 2, 2))
        if block == "5b":
            x = pooled(x, (2, 2, 2), (2, 2, 2))
        at = f"mixed_{block}"
        branches = [
            unit(w, f"{at}.conv_b0", 1, x, 0),
            separable(w, f"{at}.conv_b1_b", unit(w, f"{at}.conv_b1_a", 1, x, 0)),
            separable(w, f"{at}.conv_b2_b", unit(w, f"{at}.conv_b2_a", 1, x, 0)),
            unit(w, f"{at}.conv_b3_b", 1, F.max_pool3d(x, (3, 3, 3), 1, 1), 0),
        ]
        x = torch.cat([gate(w, f"{at}.gating_b{n}", branch) for n, branch in enumerate(branches)], 1)
    return x.flatten(2).mean(2) @ w["fc.weight"].T + w["fc.bias"]


def test_a_block_of_pixels_becomes_channels_by_time_row_column_and_colour() -> None:
    n, c, t, h, w = np.ogrid[:2, :3, :4, :6, :8]
    video = torch.from_numpy(10000 * n + 1000 * c + 100 * t + 10 * h + w).float()
    patches = blocks(video)
    assert patches.shape == (2, 24, 2, 3, 4)
    for time, row, column, colour in ((0, 0, 0, 0), (1, 0, 1, 2), (0, 1, 1, 1), (1, 1, 1, 2)):
        channel = ((time * 2 + row) * 2 + column) * 3 + colour
        assert torch.equal(patches[:, channel], video[:, colour, time::2, row::2, column::2])


def test_a_pooling_pads_behind_as_tensorflow_does() -> None:
    row = torch.tensor([5.0, 1, 2, 3, 4, 9]).reshape(1, 1, 1, 1, 6)
    # Windows of 3 at every second number: (5 1 2), (2 3 4), (4 9 and the padding).
    assert pooled(row, (1, 1, 3), (1, 1, 2)).flatten().tolist() == [5, 4, 9]
    assert pooled(row[..., :5], (1, 1, 3), (1, 1, 2)).flatten().tolist() == [5, 4, 4], (
        "an odd length: (5 1 2), (2 3 4), (4)"
    )


@torch.inference_mode()
def test_the_network_is_that_of_functions_over_the_same_weights(weights: Weights) -> None:
    model = S3D(len(S3D_WORDS) + 1, 8, 16, 24).eval().double()
    model.load_state_dict({name: tensor for name, tensor in weights.items() if name != "words"})
    weights = {name: tensor.double() for name, tensor in weights.items()}
    torch.manual_seed(1)
    for size in ((4, 32, 48), (6, 50, 50)):  # 50 / 2 is odd, as 250 / 2 is
        video = torch.rand(2, 3, *size, dtype=torch.float64)
        vectors, expected = model(video), by_functions(weights, video)
        assert torch.allclose(vectors, expected, rtol=1e-9) and vectors.shape == (2, 24)
        assert (vectors[0] - vectors[1]).abs().max() > 1e-3, "videos differ in their vectors"


def test_the_published_sizes_have_the_published_count_of_numbers() -> None:
    """The checkpoint of Miech et al. has 66,250 words of 300 numbers, 2,048 features and vectors of 512 numbers."""
    with torch.device("meta"):
        model = S3D(66_250)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert shapes["text_module.word_embd.weight"] == (66_250, 300) and shapes["fc.weight"] == (512, 1024)
    assert shapes["conv1.conv1.weight"] == (64, 24, 2, 4, 4) and shapes["conv_2c.conv2.weight"] == (192, 192, 3, 1, 1)
    assert shapes["mixed_5c.conv_b1_b.conv1.weight"] == (384, 192, 1, 3, 3)
    assert shapes["text_module.fc1.weight"] == (2048, 300) and shapes["text_module.fc2.weight"] == (512, 2048)


def test_a_text_is_the_maximum_over_sixteen_places_in_numpy(embedding: S3DEmbedding, weights: Weights) -> None:
    w = {name: tensor.numpy() for name, tensor in weights.items()}
    assert embedding.tokens("The robot opens it's xylophone!").tolist() == [3, 1, 2, 7] + [0] * 12
    assert embedding.tokens("a " * 20).tolist() == [5] * 16
    texts = ("The robot opens the door.", "nothing known", "a drawer")
    for text, reply in zip(texts, embedding(texts), strict=True):
        table = w["text_module.word_embd.weight"][embedding.tokens(text).numpy()]
        hidden = np.maximum(table @ w["text_module.fc1.weight"].T + w["text_module.fc1.bias"], 0).max(0)
        expected = w["text_module.fc2.weight"] @ hidden + w["text_module.fc2.bias"]
        assert np.allclose(reply.value, expected, atol=1e-5)


def test_a_video_is_scaled_to_one_and_an_odd_one_repeats_its_last_frame() -> None:
    frames = np.zeros((3, SIDE, SIDE, 3), np.uint8)
    frames[2], frames[0, 4, 7] = 255, (51, 102, 0)
    video = S3DEmbedding.video(frames)
    assert video.shape == (3, 4, SIDE, SIDE) and video[:, 0, 4, 7].tolist() == pytest.approx([0.2, 0.4, 0])
    assert (video[:, 2:] == 1).all() and video[:, 1].max() == 0
    assert S3DEmbedding.video(frames[:2, :134, :134]).shape == (3, 2, SIDE, SIDE)


def test_a_converted_checkpoint_embeds_videos_and_texts_through_the_loader(
    tiny: Callable[..., Path], weights: Weights
) -> None:
    config = Transformers(model=str(tiny("s3d")))
    assert config.dimensions() == 24
    config.ready()
    model = config.spawn_model("cpu")
    frames = np.random.default_rng(0).integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)

    async def embed() -> Any:
        return await model.answer(VideoCall(frames)), await model.answer(EmbedCall(("the door", "a drawer")))

    video, texts = asyncio.run(embed())
    assert VideoCall(frames).fault(video.value) == "" and video.usage.images == 2
    with torch.inference_mode():
        expected = by_functions(weights, torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 255)
    assert np.allclose(video.value, expected[0], rtol=1e-2, atol=1e-3)
    assert texts.value.shape == (2, 24) and texts.usage.tokens_in == 4
    with pytest.raises(UserError, match="not single images"):
        asyncio.run(model.answer(EmbedCall((frames[0],))))


def test_a_file_without_its_words_or_of_another_network_is_refused(tmp_path: Path, weights: Weights) -> None:
    def refused(tensors: Weights, metadata: dict[str, str]) -> str:
        file = tmp_path / "file.safetensors"
        save_file(tensors, file, metadata)
        with pytest.raises(UserError) as error:
            Transformers(model=str(file)).spawn_model("cpu")
        return str(error.value)

    s3d = {"network": "s3d"}
    assert "has no word list" in refused({"a": torch.ones(1)}, s3d)
    assert "is no S3D" in refused({"a": torch.ones(1), "words": weights["words"]}, s3d)
    assert "is no S3D" in refused({n: t for n, t in weights.items() if n != "fc.bias"}, s3d)
    assert "'s4d', which is not known here" in refused(weights, {"network": "s4d"})
    assert "does not say what it is" in refused(weights, {})
    many = torch.tensor(list(b"a\n" * 12 + b"a"), dtype=torch.uint8)
    assert "lists 13 words, and its table has room for 12" in refused(weights | {"words": many}, s3d)


def test_weights_whose_shapes_describe_a_larger_network_are_refused_without_its_memory(
    tmp_path: Path, allocated: list[int]
) -> None:
    texts = {"word_embd": torch.ones(2, 1), "fc1": torch.ones(5_000, 1), "fc2": torch.ones(5_000, 1)}
    small = {f"text_module.{name}.weight": tensor for name, tensor in texts.items()}
    words = torch.frombuffer(bytearray(b"robot"), dtype=torch.uint8)
    save_file(small | {"words": words}, tmp_path / "s3d.safetensors", {"network": "s3d"})
    with pytest.raises(UserError, match=r"is no S3D: .*size mismatch|is no S3D: .*Missing key"):
        S3DEmbedding(str(tmp_path / "s3d.safetensors"), "float32", torch.device("cpu"))
    assert max(allocated, default=0) <= 10_000
