"""The dialogue with FuRL's embedder: vectors of the instruction, the goal image, and the frames of transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.baselines.frame_vectors import cropped
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import AskModel, EmbedCall

INSTRUCTION, GOAL = "instruction", "goal"
"""Contents of the questions about the instruction and the goal image."""


class Vectors:
    """A dialogue that returns the vectors of frames, or of the instruction."""

    calls = 1

    def __init__(self, instruction: str, crop: float) -> None:
        """`crop`: the share of a frame that is cut off at each edge, below .5."""
        self._instruction, self._crop = instruction, crop

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the vectors, float32 [n, d], of frames uint8 [n, height, width, 3], or of the instruction (n = 1) if
        `content` asks for it; None if the model gave no vectors."""
        if content == INSTRUCTION:
            inputs: tuple[Any, ...] = (self._instruction,)
        else:
            assert frames is not None, "questions other than that for the instruction have frames"
            inputs = tuple(cropped(frames, self._crop))
        outcome = await ask(EmbedCall(inputs))
        return None if outcome.failure else np.asarray(outcome.value)
