"""Captions of steps, and vectors of states, that a joint model of images and texts gives for System 1 (DSADF, §3.1, 4.3
and 5.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.baselines.by_text import NOTHING
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec, Place, Question
from guidebench.harness.models.calls import AskModel, EmbedCall

CAPTIONER, IMAGE_ENCODER = "captioner", "image_encoder"
CHANGED = "a game in which the player has just done this: {deed}"
UNCHANGED = "a game in which nothing has just happened"


class StepCaption:
    """A dialogue that chooses the deed that describes a step best: C_trans(o, a, o') of eq. 9, by zero-shot
    classification with CLIP.

    The classes are compared with the difference of the two frames' unit vectors, since all that does not change in the
    step is in both. The class that nothing happened has the score 0.
    """

    calls = 2

    def __init__(self, deeds: Sequence[str]) -> None:
        """`deeds`: the captions from which to choose (`harness.capabilities.NamesDeeds`)."""
        self._deeds = tuple(deeds)
        self._texts = classified(self._deeds)
        self._classes: Array | None = None
        """t − t₀ of the classes' texts (`classes`), the same for all steps; None before the first answer."""

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
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
    """Return t − t₀ for each class, float64 [1 + D, width]. `texts` [1 + D, width]: the vectors of the classes' texts,
    here scaled to length 1 as t; t₀ is the first, that nothing happened."""
    vectors = _unit(texts)
    return np.asarray(vectors - vectors[0])


def changes(images: Array, class_vectors: Array) -> Array:
    """Return the score of each class for a step, float64 [1 + D]: (x' − x) · (t − t₀).

    `images` [2, width]: the vectors of the frames before and after the step, here scaled to length 1 as x and x';
    `class_vectors` [1 + D, width]: t − t₀ (`classes`), so that the first score is 0. UserError if images and texts have
    vectors of different lengths.
    """
    if images.shape[1] != class_vectors.shape[1]:
        raise UserError(
            f"the captioner turns a text into {class_vectors.shape[1]} numbers and a frame into {images.shape[1]}, "
            f"which cannot be compared; choose a captioner.model that has images and texts in one space, such as clip"
        )
    before, after = _unit(images)
    return np.asarray(class_vectors @ (after - before))


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0))


class FrameVector:
    """A dialogue that returns the vector of a frame."""

    calls = 1

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the vector of a frame uint8 [1, height, width, 3], float32 [1, d]; None if the model gave none."""
        assert frames is not None, "a question has the frame of a state"
        outcome = await ask(EmbedCall((frames[0],)))
        return None if outcome.failure else np.asarray(outcome.value)


def spec(width: int) -> ArraySpec:
    """Return the array specification of `FrameVector`'s answers: float32 [1, width]."""
    return ArraySpec("frame_vector_of_state", (width,))


def about(role: str, place: Place, snapshots: Array) -> Question:
    """Return a question to a role about the frames of these snapshots, uint8 [L, n], which belong to no stored
    transition."""
    return Question(place.row, np.full(1, -1, np.int64), snapshots, NOTHING, json.dumps(""), role, place.episode)
