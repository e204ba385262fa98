"""VLM-RM's requests to an embedder (two texts and the frames), and the reward computed from the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import AskModel, EmbedCall


class GoalBaseline:
    """A dialogue that turns frames into rewards. The texts are requested with every question; equal calls are answered
    once."""

    calls = 2

    def __init__(self, goal: str, baseline: str, alpha: float) -> None:
        """With `alpha` = 0 the baseline is not used."""
        self._texts = (goal, baseline) if alpha else (goal,)
        self._alpha = alpha

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the reward of each frame, [L], of frames uint8 [L, height, width, 3]; None if the model returned no
        vectors. A zero vector makes the reward not finite."""
        assert frames is not None, "a stretch has frames"
        texts, images = await ask(EmbedCall(self._texts)), await ask(EmbedCall(tuple(frames)))
        if texts.failure or images.failure:
            return None
        goal, baseline = texts.value[0], texts.value[-1]
        return reward(images.value, goal, baseline, self._alpha)


def reward(images: Array, goal: Array, baseline: Array, alpha: float) -> Array:
    """Return r = 1 - |α proj_L(x) + (1 - α) x - g|² / 2 of images x [n, D] given texts g, b [D], float64 [n]. All
    vectors are scaled to length 1, and L is the line through b and g (VLM-RM, definition 1). With α = 0 it is the
    cosine of x and g.

    UserError if b and g coincide and α > 0, or if texts and images have vectors of different lengths.
    """
    if images.shape[1:] != goal.shape:
        raise UserError(
            f"the embedder turns a text into {len(goal)} numbers and a frame into {images.shape[1]}, which cannot be "
            f"compared; choose an embedder.model that has images and texts in one space, such as clip"
        )
    x, g, b = (_unit(np.asarray(vectors, np.float64)) for vectors in (images, goal, baseline))
    away = (1 - alpha) * (x - g)
    if alpha:
        along = g - b
        length = along @ along
        if length == 0:
            raise UserError("guide.goal and guide.baseline have the same vector, and no line goes through one point")
        away += alpha * np.outer((x - g) @ along / length, along)  # since g lies on L: proj_L(x) - g
    return np.asarray(1 - (away**2).sum(1) / 2)


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
