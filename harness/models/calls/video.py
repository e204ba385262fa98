"""The call `video`: a video that the model maps to one vector, in the space of its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import Call, Json, part
from guidebench.harness.models.calls.embed import cosine_distance
from guidebench.harness.registry import register
from guidebench.harness.types import Array


@register.call("video")
@dataclass(frozen=True, eq=False)
class VideoCall(Call):
    """One video, mapped to one vector: the answer is float32 [d]. Its texts are embedded by `EmbedCall`."""

    frames: Array
    """uint8 [n, height, width, 3], n ≥ 1, in order; a model that reads a fixed number of frames chooses among them."""

    kind: ClassVar[str] = "video"
    tolerance: ClassVar[float] = 0.01
    measure: ClassVar[str] = "cosine distance"
    array: ClassVar[Form | None] = Form("float32", 1)

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {"frames": [named(frame) for frame in self.frames]}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"frames": [dict(), *_] as frames}:
                return cls(np.stack([np.asarray(part(frame, image)) for frame in frames]))
        raise ValueError("a call about a video has its frames")

    @classmethod
    def small(cls) -> Self:
        frames = np.zeros((8, 56, 56, 3), np.uint8)
        for number, frame in enumerate(frames):
            frame[20:36, 4 * number : 4 * number + 16] = 255
        return cls(frames)

    def images(self) -> Sequence[Array]:
        return list(self.frames)

    def fault(self, value: Any) -> str:
        if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1 and len(value)):
            return f"expected float32 [d], got {getattr(value, 'shape', type(value).__name__)}"
        return "" if np.isfinite(value).all() else "the vector holds a number that is not finite"

    def distance(self, recorded: Any, now: Any) -> float:
        """Return 1 minus the cosine of the vectors; infinite if their lengths differ or only one of them is zero."""
        return cosine_distance(np.asarray(recorded)[None], np.asarray(now)[None])

    @classmethod
    def words(cls, value: Any) -> str:
        return f"a vector of {len(value)} numbers"
