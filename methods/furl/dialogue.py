"""What FuRL asks its embedder: the instruction, the goal image, and the frames of transitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import Call, CallResult, EmbedCall

INSTRUCTION, GOAL = "instruction", "goal"
"""The contents of the questions that are not about transitions."""


class Vectors:
    """Turns frames, or the instruction, into vectors (a Dialogue)."""

    calls = 1

    def __init__(self, instruction: str, crop: int) -> None:
        """`crop`: pixels that are cut off each side of a frame."""
        self._instruction, self._crop = instruction, crop

    async def __call__(
        self, content: Any, frames: Array | None, ask: Callable[[Call], Awaitable[CallResult]]
    ) -> Array | None:
        """Return float32 [n, d]: of the instruction, n = 1, or of frames uint8 [n, height, width, 3]; None where the
        model gave no vectors."""
        if content == INSTRUCTION:
            items: tuple[Any, ...] = (self._instruction,)
        else:
            assert frames is not None, "questions other than that for the instruction have frames"
            items = tuple(cropped(frames, self._crop))
        found = await ask(EmbedCall(items))
        return None if found.failure else np.asarray(found.value)


def cropped(frames: Array, pixels: int) -> Array:
    """Return frames [n, height, width, 3] without `pixels` on each side; UserError where nothing would be left."""
    height, width = frames.shape[1:3]
    if 2 * pixels >= min(height, width):
        raise UserError(
            f"guide.crop={pixels} cuts {pixels} pixels off each side of frames of {width}x{height}, which leaves none; "
            f"choose a smaller guide.crop or a larger drawing.size"
        )
    return frames[:, pixels : height - pixels, pixels : width - pixels]
