"""The embedder `scripted`: hand-written features of pixels and words, with which a method is tested at no cost.

It also answers for a video encoder and for a diffusion model, by arithmetic on the same features.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from guidebench.harness.interfaces import Array, Suite
from guidebench.harness.parts import ModelPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Transport, Unit

if TYPE_CHECKING:
    from guidebench.harness.models.calls import DenoiseCall, EmbedCall, VideoCall

SIDE = 16
"""Pixels along each edge of the picture that a frame is reduced to."""
FEATURES = 3 * SIDE**2
"""Numbers that describe a frame or a text before they are projected."""
GREY = 255 * FEATURES * 32
"""Divisor of a frame's projection: its pixels then count from 0 to 1, and the 32, about the root of `FEATURES`,
keeps a vector's numbers near 1."""
COUNTS = 32
"""Divisor of a text's projection, for the same reason."""


@register.embedder("scripted")
@dataclass(frozen=True)
class Scripted(ModelPart):
    """Turns frames into random projections of a few pixels and texts into those of hashed letters; hand-written, to
    test the benchmark without a foundation model. Frames and texts are not mapped into one space: a cosine
    between them means nothing, and neither do its errors as a diffusion model."""

    width: Annotated[int, Bounds(16), Unit("numbers")] = 1024
    """Dimension of the vectors (choice: as LIV's)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (choice: as the embedder transformers)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Timeout of one answer, after which its process is restarted (choice: ample; it takes a millisecond)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% hand-written: random projections of a few pixels, and of hashed letters and words"
    backend: ClassVar[str] = "scripted"
    answers: ClassVar[tuple[str, ...]] = ("embed", "video", "denoise")
    title: ClassVar[str] = "hand-written: random projections of pixels and of words"

    def dimensions(self) -> int:
        """Return the width that was set."""
        return self.width

    def spawn(self, suite: Suite, task: str) -> Callable[[EmbedCall | VideoCall | DenoiseCall], Array]:
        """Return the function that answers calls. It sees only the content of a call, not the suite or the task."""
        return Projection(self.width)


class Projection:
    """Frames and texts -> vectors, float32 [n, width].

    A frame is reduced to 16 × 16 pixels by Pillow's box filter and its mean is subtracted, so that frames that look
    alike have vectors that are near each other. A text is the counts of its words and of the runs of three letters in
    them, each counted in one of 768 places that its hash (BLAKE2b) names. Either is multiplied by a fixed matrix of
    signs, one for frames and another for texts, whose bits are SHAKE-256 of its name. One more row of signs is added,
    so that a frame of one colour and a text without letters have vectors that are not zero. All sums are of whole
    numbers that float64 holds exactly: a vector has the same bytes on every machine and in every batch.
    """

    def __init__(self, width: int) -> None:
        self._of_frames, self._of_texts = signs("frames", width), signs("texts", width)

    def __call__(self, call: EmbedCall | VideoCall | DenoiseCall) -> Array:
        """Return the vectors of a call's items, float32 [n, width]; that of its video, float32 [width]; or the errors
        of its frames, float32 [n, 3]."""
        from guidebench.harness.models.calls import DenoiseCall, VideoCall

        if isinstance(call, VideoCall):
            return self._video(call.frames)
        if isinstance(call, DenoiseCall):
            return self._errors(call)
        return np.stack([self.of_text(item) if isinstance(item, str) else self._frame(item) for item in call.items])

    def _video(self, frames: Array) -> Array:
        """Return the mean of the vectors of frames [n, height, width, 3], float32 [width]."""
        mean: Array = np.stack([self._frame(frame) for frame in frames]).mean(0, np.float64).astype(np.float32)
        return mean

    def _errors(self, call: DenoiseCall) -> Array:
        """Return the errors of a made-up denoiser, float32 [n, 3].

        The vector of a frame is noised to x = √(1 - s) f + √s ε with s = t / 1,000. The prediction without the text is
        x; the prediction with it is x without its part along the text's vector.
        """
        share = min(call.level / 1000, 1.0)
        text = self.of_text(call.text).astype(np.float64)
        errors = []
        for frame, seed in zip(call.frames, call.seeds, strict=True):
            noise = np.random.default_rng(seed).standard_normal(len(text))
            without = np.sqrt(1 - share) * self._frame(frame) + np.sqrt(share) * noise
            along = (without * text).sum() / (text * text).sum() * text
            apart, wrong = along, without - noise
            errors.append([(apart**2).mean(), (wrong**2).mean(), ((wrong - along) ** 2).mean()])
        return np.array(errors, np.float32)

    def _frame(self, frame: Array) -> Array:
        """Return the vector of a frame uint8 [height, width, 3], float32 [width]."""
        from PIL import Image

        small = Image.fromarray(np.ascontiguousarray(frame)).resize((SIDE, SIDE), Image.Resampling.BOX)
        pixels = np.asarray(small, np.float64).ravel()
        return _vector(FEATURES * pixels - pixels.sum(), FEATURES, self._of_frames, GREY)

    def of_text(self, text: str) -> Array:
        """Return the vector of a text, float32 [width]."""
        counts = np.zeros(FEATURES)
        for piece in pieces(text):
            counts[place(piece)] += 1
        return _vector(counts, 1, self._of_texts, COUNTS)


def _vector(features: Array, constant: int, matrix: Array, scale: int) -> Array:
    """Multiply whole numbers [FEATURES], and a constant after them, by a matrix of signs, and divide by `scale`."""
    vector: Array = (matrix @ np.append(features, constant) / scale).astype(np.float32)
    return vector


def signs(name: str, width: int) -> Array:
    """Return the matrix of 1 and -1 that follows from a name, float64 [width, FEATURES + 1]; a narrower one is the top
    of a wider one."""
    hashed = np.frombuffer(hashlib.shake_256(name.encode()).digest(width * (FEATURES + 8) // 8), np.uint8)
    bits = np.unpackbits(hashed).reshape(width, FEATURES + 8)[:, : FEATURES + 1]
    return 2.0 * bits - 1.0


def pieces(text: str) -> Iterator[str]:
    """Yield the words of a text in small letters, each followed by the runs of three characters in it, a space before
    and one behind it included."""
    for word in re.findall(r"\w+", text.casefold()):
        yield word
        spaced = f" {word} "
        yield from (spaced[at : at + 3] for at in range(len(spaced) - 2))


def place(piece: str) -> int:
    """Return where a piece of a text is counted, in [0, FEATURES)."""
    return int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "big") % FEATURES
