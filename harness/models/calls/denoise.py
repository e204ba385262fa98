"""The call `denoise`: how well a text-to-image diffusion model predicts the noise in frames, with and without a text.

The answer holds mean squared errors rather than a reward, so that a method's weights are its own settings and a
recorded answer serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.errors import count
from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import Call, Json, part
from guidebench.harness.registry import register
from guidebench.harness.types import Array

SEEDS = 2**32
"""Seeds of noise are below this number."""
MOST_STEPS = 2**16
"""Noise levels are below this number; published models have 1,000."""


@register.call("denoise")
@dataclass(frozen=True, eq=False)
class DenoiseCall(Call):
    """n frames uint8 [height, width, 3], each noised to one level; the answer is float32 [n, 3].

    With the noise ε, its prediction ε_c given the text and ε_u given the empty text, the columns are the means over a
    frame's latent of (ε_c - ε_u)², (ε_u - ε)² and (ε_c - ε)². A frame's noise depends only on its seed, so that equal
    calls have equal answers.
    """

    frames: tuple[Array, ...]
    text: str
    level: int
    """Noise level t of the model's schedule, from 0, which is the least noise."""
    seeds: tuple[int, ...]
    """Seed of each frame's noise, in [0, 2³²)."""

    kind: ClassVar[str] = "denoise"
    tolerance: ClassVar[float] = 0.05
    measure: ClassVar[str] = "largest relative difference of an error"
    array: ClassVar[Form | None] = Form("float32", 2)

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        frames = [named(frame) for frame in self.frames]
        return {"frames": frames, "text": self.text, "level": self.level, "seeds": list(self.seeds)}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"frames": [dict(), *_] as frames, "text": str(text), "level": int(level), "seeds": list(seeds)}:
                are_seeds = all(type(seed) is int and 0 <= seed < SEEDS for seed in seeds)
                if are_seeds and len(seeds) == len(frames) and type(level) is int and 0 <= level < MOST_STEPS:
                    return cls(tuple(np.asarray(part(frame, image)) for frame in frames), text, level, tuple(seeds))
        raise ValueError("a call to denoise has frames, a text, a noise level, and a seed for each frame")

    @classmethod
    def small(cls) -> Self:
        frame = np.zeros((64, 64, 3), np.uint8)
        frame[24:40, 24:40] = 255
        return cls((frame,), "a white square", 500, (0,))

    def images(self) -> Sequence[Array]:
        return list(self.frames)

    def fault(self, value: Any) -> str:
        expected_shape = (len(self.frames), 3)
        if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == expected_shape):
            return f"expected float32 {[*expected_shape]}, got {getattr(value, 'shape', type(value).__name__)}"
        if not np.isfinite(value).all():
            return "an error is not finite"
        return "" if (value >= 0).all() else "a mean squared error is negative"

    def distance(self, recorded: Any, now: Any) -> float:
        """Return the largest |a - b| / max(a, b) of two errors, 0 where both are 0; infinite if their shapes differ."""
        if np.shape(recorded) != np.shape(now):
            return float("inf")
        larger = np.maximum(recorded, now)
        differences = np.divide(np.abs(recorded - now), larger, out=np.zeros_like(larger), where=larger > 0)
        return float(differences.max(initial=0.0))

    @classmethod
    def words(cls, value: Any) -> str:
        return (
            f"errors of {count(len(value), 'frame')}; that of the prediction with the text is {value[:, 2].mean():.4g}"
        )
