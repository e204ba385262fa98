"""Vectors of texts, of which each seed asks a text embedder once, and the call that makes a text a vector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guidebench.baselines.by_text import ArraysByText, question
from guidebench.harness.interfaces import Array, ArraySpec, Place, Question
from guidebench.harness.models.calls import AskModel, EmbedCall

ROLE = "text_embedder"
"""The role that is asked."""
FILE = Path("replay", "text_vectors.bin")
"""The file in a run's directory that holds its texts and vectors; it is deleted with the stored transitions."""


class TextVector:
    """Turns a text into its vector (a Dialogue)."""

    calls = 1

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the vector of the text `content`, float32 [1, d]; None if the model gave none."""
        reply = await ask(EmbedCall((content,)))
        return None if reply.failure else np.asarray(reply.value)


def spec(width: int) -> ArraySpec:
    """Return what the answers to `TextVectors` are: float32 [1, width]."""
    return ArraySpec("text_vector", (width,))


class TextVectors(ArraysByText):
    """The text embedder's vectors of the texts that the seeds of a worker have met."""

    def __init__(self, width: int, directories: Sequence[Path], file: Path = FILE) -> None:
        """`directories`: the run directory of each seed, in which checkpoints keep texts and vectors in `file`."""
        super().__init__(width, directories, file)

    def question(self, text: bytes, place: Place) -> Question:
        return question(json.dumps(text.decode("utf-8", "replace")), place, ROLE)

    def array(self, answer: Array, row: int) -> Array:
        vector: Array = answer[0]
        return vector


def cosine(first: Array, second: Array) -> float:
    """Return the cosine of two vectors, float [width]; 0 if either is zero, as that of a text whose call failed."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    lengths = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / lengths if lengths else 0.0
