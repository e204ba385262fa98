"""The call `track`: where the object at a point of a video's first frame is in each of its frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import Call, CallSections, Json, part
from guidebench.harness.models.calls.segment import point_of
from guidebench.harness.registry import register
from guidebench.harness.types import Array


@register.call("track")
@dataclass(frozen=True, eq=False)
class TrackCall(Call):
    """A video and a point on an object in its first frame; the answer is float32 [L, 3].

    Its columns are column and row of the point in each frame, in pixels, and 1 where the object is seen. Where it is
    lost, all three are 0, since an answer holds finite numbers only.
    """

    frames: Array
    """uint8 [L, height, width, 3], L ≥ 1."""
    point: tuple[float, float]
    """(column, row) in pixels of the first frame, as in `SegmentCall`."""
    text: str = ""
    """What names the object, such as an instruction, for a model that reads it; "" for none."""

    kind: ClassVar[str] = "track"
    tolerance: ClassVar[float] = 0.02
    measure: ClassVar[str] = "largest distance in a frame, in parts of its width"
    array: ClassVar[Form | None] = Form("float32", 2)

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {"frames": [named(frame) for frame in self.frames], "point": list(self.point), "text": self.text}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"frames": [dict(), *_] as frames, "point": point, "text": str(text)}:
                return cls(np.stack([np.asarray(part(frame, image)) for frame in frames]), point_of(point), text)
        raise ValueError("a call to track has frames, a point in the first of them, and a text")

    @classmethod
    def small(cls) -> Self:
        frames = np.zeros((3, 64, 64, 3), np.uint8)
        for number, frame in enumerate(frames):
            frame[24:40, 16 + 8 * number : 32 + 8 * number] = (220, 40, 40)
        return cls(frames, (24.0, 32.0), "put the red block into the left bin")

    def images(self) -> Sequence[Array]:
        return list(self.frames)

    def fault(self, value: Any) -> str:
        expected_shape = (len(self.frames), 3)
        if not (isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == expected_shape):
            return f"expected float32 {[*expected_shape]}, got {getattr(value, 'shape', type(value).__name__)}"
        if not np.isfinite(value).all():
            return "a position is not finite"
        is_seen = value[:, 2] == 1
        return "" if (is_seen | (value == 0).all(axis=1)).all() else "a frame is neither seen (1) nor lost (zeros)"

    def distance(self, recorded: Any, now: Any) -> float:
        """Return the largest distance of two positions in a frame divided by the frame's width; infinite if other
        frames are lost."""
        if np.shape(recorded) != np.shape(now) or (recorded[:, 2] != now[:, 2]).any():
            return math.inf
        distances = np.linalg.norm(recorded[:, :2] - now[:, :2], axis=1)
        return float(distances.max(initial=0.0) / self.frames.shape[2])

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        column, row = form["point"]
        return [
            ("frames", form["frames"]), ("point", [f"column {column:g}, row {row:g}"]), ("text", [form["text"]])
        ]  # fmt: skip

    @classmethod
    def words(cls, value: Any) -> str:
        return f"the point in {len(value)} frames; it is seen in {int(value[:, 2].sum())}"


def track_of_masks(masks: Array, point: tuple[float, float]) -> Array:
    """Return the answer of `TrackCall`, float32 [L, 3], of the object's masks, bool [L, height, width].

    The point keeps its place relative to the centroid of the object's mask if it lies on the first mask, and else is
    the centroid (choice: a mask tells nothing of how the object turns). An empty mask is a lost object.
    """
    centres = [centroid(mask) for mask in masks]
    column, row = (int(np.floor(coordinate)) for coordinate in point)
    height, width = masks.shape[1:]
    on = 0 <= row < height and 0 <= column < width and bool(masks[0, row, column])
    offset = np.subtract(point, centres[0]) if on and centres[0] is not None else np.zeros(2)
    answer = np.zeros((len(masks), 3), np.float32)
    for position, centre in zip(answer, centres, strict=True):
        if centre is not None:
            position[:] = *(centre + offset), 1.0
    return answer


def centroid(mask: Array) -> Array | None:
    """Return the centre (column, row) of a mask's pixels, in pixels, float64 [2]; None if it is empty."""
    if not mask.any():
        return None
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5])
