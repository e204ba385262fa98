"""TADPoLe's request to a diffusion model, and the reward computed from its errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import AskModel, DenoiseCall


class Denoising:
    """A dialogue that returns the rewards of frames by one call."""

    calls = 1

    def __init__(self, text: str, alignment: float, reconstruction: float) -> None:
        """`alignment`, `reconstruction`: the weights of the two terms of `reward`."""
        self._text, self._alignment, self._reconstruction = text, alignment, reconstruction

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> Array | None:
        """Return the reward of each frame, [L], of frames uint8 [L, height, width, 3]; None if the model failed.
        `content`: `{"level": t, "seeds": [seed of each frame's noise]}`."""
        assert frames is not None, "a stretch has frames"
        call = DenoiseCall(tuple(frames), self._text, int(content["level"]), tuple(content["seeds"]))
        outcome = await ask(call)
        return None if outcome.failure else reward(outcome.value, self._alignment, self._reconstruction)


def reward(errors: Array, alignment: float, reconstruction: float) -> Array:
    """Return symlog(w₁·mean(ε_c - ε_u)²) + symlog(w₂·(mean(ε_u - ε)² - mean(ε_c - ε)²)), float64 [n], of the errors
    [n, 3] that `DenoiseCall` describes (TADPoLe, released code)."""
    text_effect, error_without, error_with = np.asarray(errors, np.float64).T
    return symlog(alignment * text_effect) + symlog(reconstruction * (error_without - error_with))


def symlog(x: Array) -> Array:
    """Return sign(x) log(1 + |x|), of any shape."""
    return np.asarray(np.sign(x) * np.log1p(np.abs(x)))
