"""The calls that a model of images and texts answers for System 1: the caption of a step, and the vector of a state
(DSADF, §3.1, 4.3 and 5.1)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from guidebench.baselines.by_text import NOTHING
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec, Place, Question
from guidebench.harness.models.calls import Call, CallResult, EmbedCall

CAPTIONER, IMAGE_ENCODER = "captioner", "image_encoder"
CHANGED = "a game in which the player has just done this: {deed}"
UNCHANGED = "a game in which nothing has just happened"
Ask = Callable[[Call], Awaitable[CallResult]]


class StepCaption:
    """Chooses the deed that describes a step best (a Dialogue): C_trans(o, a, o') of eq. 9, by CLIP's zero-shot
    classification of the frame after the step.

    What a frame shows apart from the step is the same in the frame before it, so the classes are compared with the
    difference of the two frames' vectors of length 1; the class that nothing happened has the score 0.
    """

    calls = 2

    def __init__(self, deeds: Sequence[str]) -> None:
        """`deeds`: the captions from which to choose (`harness.capabilities.NamesDeeds`)."""
        self._deeds = tuple(deeds)
        self._texts = classified(self._deeds)
        self._classes: Array | None = None
        """Their vectors, once they are known: the same for all steps."""

    async def __call__(self, content: Any, frames: Array | None, ask: Ask) -> dict[str, Any] | None:
        """Return {"caption": a deed, or "" if nothing happened, "score"}, of frames uint8 [2, height, width, 3], before
        and after the step; None if the model gave no vectors."""
        assert frames is not None and len(frames) == 2, "a question has the frames before and after a step"
        if np.array_equal(*frames):
            return {"caption": "", "score": 0.0}
        if self._classes is None:
            texts = await ask(EmbedCall(self._texts))
            if texts.failure:
                return None
            self._classes = classes(texts.value)
        images = await ask(EmbedCall(tuple(frames)))
        if images.failure:
            return None
        scores = changes(images.value, self._classes)
        best = int(scores.argmax())
        return {"caption": ("", *self._deeds)[best], "score": float(scores[best])}


def classified(deeds: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of the classes: that nothing happened, and each deed."""
    return (UNCHANGED, *(CHANGED.format(deed=deed) for deed in deeds))


def classes(texts: Array) -> Array:
    """Return t − t₀ of the vectors of the classes, texts [1 + D, width], scaled to length 1; t₀ is the first, that
    nothing happened. float64 [1 + D, width]."""
    found = _unit(texts)
    return np.asarray(found - found[0])


def changes(images: Array, known: Array) -> Array:
    """Return the score of each class, float64 [1 + D]: (x' − x) · (t − t₀) of the vectors of the frames x before and x'
    after a step, images [2, width], scaled to length 1, and of `classes`, known [1 + D, width]. That of the first is 0.

    UserError if images and texts have vectors of different lengths.
    """
    if images.shape[1] != known.shape[1]:
        raise UserError(
            f"the captioner turns a text into {known.shape[1]} numbers and a frame into {images.shape[1]}, which "
            f"cannot be compared; choose a captioner.model that has images and texts in one space, such as clip"
        )
    before, after = _unit(images)
    return np.asarray(known @ (after - before))


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0))


class FrameVector:
    """Turns a frame into its vector (a Dialogue)."""

    calls = 1

    async def __call__(self, content: Any, frames: Array | None, ask: Ask) -> Array | None:
        """Return the vector of a frame uint8 [1, height, width, 3], float32 [1, d]; None if the model gave none."""
        assert frames is not None, "a question has the frame of a state"
        found = await ask(EmbedCall((frames[0],)))
        return None if found.failure else np.asarray(found.value)


def spec(width: int) -> ArraySpec:
    """Return what the answers of `FrameVector` are: float32 [1, width]."""
    return ArraySpec("frame_vector_of_state", (width,))


def about(role: str, place: Place, snapshots: Array | None) -> Question:
    """Return a question to a role about frames that concern no stored transition; without `snapshots`, uint8 [L, n],
    about the present state of the task of its place."""
    return Question(
        place.row, np.full(1, -1, np.int64), snapshots, NOTHING, json.dumps(""), role, place.episode,
        present=snapshots is None,
    )  # fmt: skip
