import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.embedding import Embedding
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from tests.refusals import check_refused

TEXTS = ["the robot moves towards the door", "a key"]


def vectors(directory: Path, items: Any) -> Any:
    source = Source(str(directory), dtype="float32")
    return np.stack([vector.value for vector in Embedding(load(source), source)(items)])


@pytest.mark.parametrize(("name", "states"), [("gpt2", "transformer"), ("sentence_bert", "")])
def test_texts_are_the_mean_of_their_own_last_hidden_states(tiny: Callable[..., Path], name: str, states: str) -> None:
    """The expected vectors are computed text by text, so without the padding that a batch adds."""
    loaded = load(Source(str(tiny(name)), dtype="float32"))
    body = getattr(loaded.model, states) if states else loaded.model
    expected = [body(**loaded.tokenizer(t, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for t in TEXTS]
    assert np.allclose(vectors(tiny(name), TEXTS), expected, atol=1e-5)


def test_sentence_transformers_files_say_how_to_pool(tiny: Callable[..., Path]) -> None:
    directory = tiny("sentence_bert", pooling="cls", normalised=True)
    loaded = load(Source(str(directory), dtype="float32"))
    first = [loaded.model(**loaded.tokenizer(t, return_tensors="pt")).last_hidden_state[0, 0] for t in TEXTS]
    expected = torch.nn.functional.normalize(torch.stack(first), dim=-1).numpy()
    assert np.allclose(vectors(directory, TEXTS), expected, atol=1e-5)


def test_clip_embeds_texts_and_images_as_its_own_features(tiny: Callable[..., Path], clips: list[Any]) -> None:
    loaded = load(Source(str(tiny("clip")), dtype="float32"))
    images = [clips[0][0], clips[1][0][:40]]
    pixels = torch.cat(
        [loaded.processor.image_processor(image, return_tensors="pt")["pixel_values"] for image in images]
    )
    expected = loaded.model.get_image_features(pixel_values=pixels).pooler_output.numpy()
    assert np.allclose(vectors(tiny("clip"), images), expected, atol=1e-5)
    alone = [
        loaded.model.get_text_features(**loaded.tokenizer(text, return_tensors="pt")).pooler_output[0].numpy()
        for text in TEXTS
    ]
    assert np.allclose(vectors(tiny("clip"), TEXTS), alone, atol=1e-5)


def test_a_text_longer_than_the_model_reads_is_cut(tiny: Callable[..., Path]) -> None:
    long = "ab" * 600
    assert np.allclose(*vectors(tiny("gpt2"), [long, long[:512]]), atol=1e-5)


def test_the_longest_text_that_sentence_transformers_reads_is_its_files(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    from tests.harness.models import tiny_models

    directory = tiny_models.sentence_bert(tmp_path / "short")
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6}))
    assert np.allclose(*vectors(directory, ["abcdefgh", "abcdzz"]), atol=1e-5), "[CLS] a b c d [SEP]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules.json": [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]}, "goes through Dense"),
        ({"1_Pooling/config.json": {"pooling_mode_lasttoken": True}}, "pools by lasttoken"),
    ],
)
def test_a_convention_that_is_not_ours_is_refused_by_name(tmp_path: Path, change: Any, message: str) -> None:
    from tests.harness.models import tiny_models

    directory = tiny_models.sentence_bert(tmp_path / "strange")
    for name, content in change.items():
        (directory / name).write_text(json.dumps(content))
    check_refused(message, vectors, directory, TEXTS)


def test_x_clip_embeds_videos_by_eight_frames_and_texts_as_its_own_features(tiny: Callable[..., Path]) -> None:
    directory = tiny("xclip")
    loaded = load(Source(str(directory), dtype="float32"))
    long, short = (
        np.random.default_rng(at).integers(0, 256, (n, 40, 56, 3), dtype=np.uint8) for at, n in ((0, 15), (1, 3))
    )
    expected = []
    for video, frame_numbers in ((long, [0, 2, 4, 6, 8, 10, 12, 14]), (short, [0, 0, 1, 1, 1, 1, 2, 2])):
        pixels = loaded.processor.image_processor([video[at] for at in frame_numbers], return_tensors="pt")[
            "pixel_values"
        ]
        assert pixels.shape == (1, 8, 3, 32, 32)
        expected.append(loaded.model.get_video_features(pixel_values=pixels).pooler_output[0].numpy())
    video_vectors = vectors(directory, [long, short])
    assert np.allclose(video_vectors, expected, atol=1e-5) and not np.allclose(
        video_vectors[0], video_vectors[1], atol=1e-3
    )
    alone = [
        loaded.model.get_text_features(**loaded.tokenizer(text, return_tensors="pt")).pooler_output[0].numpy()
        for text in TEXTS
    ]
    assert np.allclose(vectors(directory, TEXTS), alone, atol=1e-5)
    check_refused("turns no images into vectors", vectors, directory, [long[0]])


@pytest.mark.parametrize("name", ["clip", "gpt2"])
def test_a_model_of_single_images_or_of_texts_embeds_no_videos(tiny: Callable[..., Path], name: str) -> None:
    with pytest.raises(UserError, match="turns no videos into vectors; choose one such as X-CLIP"):
        vectors(tiny(name), [np.zeros((8, 32, 32, 3), np.uint8)])
