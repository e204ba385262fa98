"""The hand-written embedder: equal inputs have equal bytes, frames that look alike have near vectors, and its label."""

import hashlib
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry, settings
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import DenoiseCall, EmbedCall, VideoCall
from guidebench.harness.models.embedders.scripted import FEATURES, Projection, Scripted, pieces, place, signs

FRAMES = tuple(np.random.default_rng(0).integers(0, 256, (3, 40, 56, 3), np.uint8))
TEXTS = ("Open a drawer.", "open the drawer", "push the puck to the target", "")


def embed(*inputs: Any, width: int = 1024) -> Array:
    call = EmbedCall(inputs)
    vectors = call.answered_by(Scripted(width=width).spawn(None, ""))  # type: ignore[arg-type]
    assert call.fault(vectors) == ""
    return np.asarray(vectors)


def cosine(first: Array, second: Array) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def scene(at: int, background: int = 0) -> Array:
    """Return a frame with a bright square at column `at` on one of two smooth backgrounds."""
    rows, columns = np.mgrid[:64, :64]
    frame = np.stack([rows * 2, columns * 2, (rows + columns) if background else 126 - rows - columns], -1)
    frame = frame[::-1, ::-1].copy() if background else frame
    frame[at : at + 8, at : at + 8] = 255
    return frame.astype(np.uint8)


def test_it_is_registered_as_hand_written_and_tells_its_width() -> None:
    config = registry.get("embedder", "scripted")
    assert config is Scripted and config.backend == "scripted" and not config.privileged
    assert Scripted().dimensions() == 1024 and Scripted(width=64).dimensions() == 64
    assert embed(*TEXTS, width=64).shape == (4, 64)


@pytest.mark.parametrize("inputs", (FRAMES, TEXTS))
def test_a_vector_is_the_same_to_the_byte_in_every_batch(inputs: tuple[Any, ...]) -> None:
    together = embed(*inputs)
    assert [row.tobytes() for row in together] == [embed(text_or_frame)[0].tobytes() for text_or_frame in inputs]
    assert embed(*inputs[::-1])[::-1].tobytes() == together.tobytes()


def test_a_vector_is_the_same_to_the_byte_on_every_machine() -> None:
    """All sums are exact, so the test can state the bytes."""
    frame = np.arange(16 * 16 * 3, dtype=np.uint32).reshape(16, 16, 3).astype(np.uint8)
    digests = [
        hashlib.sha256(embed(text_or_frame, width=32).tobytes()).hexdigest()[:12] for text_or_frame in (frame, TEXTS[0])
    ]
    assert digests == ["aed8457891b3", "ab8e95aac5b0"]


def test_the_projection_of_a_small_frame_is_its_centred_pixels_times_signs() -> None:
    frame = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    pixels = frame.ravel() / 255
    matrix = signs("frames", 16)
    expected = (matrix[:, :FEATURES] @ (pixels - pixels.mean()) + matrix[:, FEATURES] / 255) / 32
    assert set(np.unique(matrix)) == {-1.0, 1.0} and abs(matrix.mean()) < 0.05
    assert np.array_equal(signs("frames", 64)[:16], matrix) and not np.array_equal(signs("texts", 16), matrix)
    assert np.allclose(embed(frame, width=16)[0], expected, rtol=1e-6)


def test_frames_that_look_alike_have_vectors_that_are_near() -> None:
    frame, near, far, other = embed(scene(20), scene(22), scene(44), scene(20, background=1))
    assert 1 > cosine(frame, near) > cosine(frame, far) > cosine(frame, other) and cosine(frame, near) > 0.9


def test_texts_that_share_words_have_vectors_that_are_nearer() -> None:
    drawer, same, push, nothing = embed(*TEXTS)
    assert cosine(drawer, same) > 0.5 > cosine(drawer, push)
    assert np.linalg.norm(nothing) > 0 and cosine(drawer, embed("OPEN A DRAWER")[0]) == pytest.approx(1)


def test_a_text_is_its_words_and_the_runs_of_three_letters_in_them() -> None:
    assert list(pieces("Open it!")) == ["open", " op", "ope", "pen", "en ", "it", " it", "it "]
    assert {place(piece) for piece in pieces("open the drawer")} <= set(range(FEATURES))


def test_what_has_no_features_has_a_vector_all_the_same() -> None:
    grey, black = embed(np.full((9, 9, 3), 128, np.uint8), np.zeros((9, 9, 3), np.uint8))
    assert np.linalg.norm(grey) > 0 and np.array_equal(grey, black), "the mean is subtracted"


def test_its_width_has_a_bound() -> None:
    assert Projection(16)(EmbedCall(("a",))).shape == (1, 16)
    with pytest.raises(UserError, match=r"embedder\.width"):
        settings.build(Scripted, {"width": 15}, "embedder")


def test_a_videos_vector_is_the_mean_of_its_frames() -> None:
    video, answers = np.stack(FRAMES), Scripted(width=32).spawn(None, "")  # type: ignore[arg-type]
    call = VideoCall(video)
    vector = call.answered_by(answers)
    assert call.fault(vector) == "" and np.allclose(vector, embed(*FRAMES, width=32).mean(0), rtol=1e-6)
    assert vector.tobytes() == VideoCall(video).answered_by(answers).tobytes()


def test_the_errors_of_its_denoiser_are_those_of_its_vectors() -> None:
    """With f, y and ε the vectors of frame, text and noise: x = √.75 f + √.25 ε, and conditioning on the text removes
    x's component along y."""
    answers = Scripted(width=32).spawn(None, "")  # type: ignore[arg-type]
    call = DenoiseCall(FRAMES[:2], "open the drawer", 250, (7, 8))
    errors = call.answered_by(answers)
    assert call.fault(errors) == ""
    frames, (text,) = embed(*FRAMES[:2], width=32), embed("open the drawer", width=32)
    for row, frame, seed in zip(errors, frames, (7, 8), strict=True):
        noise = np.random.default_rng(seed).standard_normal(32)
        x = np.sqrt(0.75) * frame + 0.5 * noise
        conditioned = x - (x @ text) / (text @ text) * text
        assert row == pytest.approx(
            [((conditioned - x) ** 2).mean(), ((x - noise) ** 2).mean(), ((conditioned - noise) ** 2).mean()]
        )
    alone = DenoiseCall(FRAMES[1:2], "open the drawer", 250, (8,)).answered_by(answers)
    assert alone[0].tobytes() == errors[1].tobytes(), "a frame's errors depend on its own seed alone"
