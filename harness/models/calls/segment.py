"""The call `segment`: masks of what an image shows, at points or of what a text names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.errors import count
from guidebench.harness.models.calls.base import Call, CallSections, Json, part
from guidebench.harness.registry import register
from guidebench.harness.types import Array

MOST_POINTS = 4096
"""Points of a call at most; the automatic mask generator of SAM 2 has 1,024."""
MOST_MASKS = 2 * MOST_POINTS
MEANINGS = ("", "thing", "place")
"""What a mask is of, by the text: nothing that is known, the thing that is to be moved, or where it is to be."""


@register.call("segment")
@dataclass(frozen=True, eq=False)
class SegmentCall(Call):
    """An image, points in it and a text; the answer is a list of masks.

    A mask is {"runs": [...], "score": s, "means": m}: the lengths of alternating runs of pixels outside and inside it,
    row by row and beginning outside (`mask_of`); the model's own estimate of the mask's quality, in [0, 1]; and one of
    `MEANINGS`. A model that reads no text, such as SAM 2, answers one mask for each point, in order and without
    meaning; one that reads the text may leave the points aside.
    """

    image: Array
    """uint8 [height, width, 3]."""
    points: tuple[tuple[float, float], ...]
    """Points (column, row) in pixels; the image's upper left corner is (0, 0), the centre of its first pixel (.5,
    .5)."""
    text: str = ""
    """What is to be done, such as an instruction; "" for none."""

    kind: ClassVar[str] = "segment"
    tolerance: ClassVar[float] = 0.05
    measure: ClassVar[str] = "1 minus the mean overlap of the masks"

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {"image": named(self.image), "points": [list(point) for point in self.points], "text": self.text}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"image": dict() as stored, "points": list(points), "text": str(text)} if len(points) <= MOST_POINTS:
                return cls(np.asarray(part(stored, image)), tuple(point_of(point) for point in points), text)
        raise ValueError(f"a call to segment has an image, at most {MOST_POINTS} points, and a text")

    @classmethod
    def small(cls) -> Self:
        image = np.zeros((64, 64, 3), np.uint8)
        image[24:40, 24:40] = (220, 40, 40)
        return cls(image, ((32.0, 32.0),), "put the red block into the left bin")

    def images(self) -> Sequence[Array]:
        return [self.image]

    def fault(self, value: Any) -> str:
        if not isinstance(value, list) or len(value) > MOST_MASKS:
            return f"expected a list of at most {MOST_MASKS} masks"
        pixels = math.prod(self.image.shape[:2])
        return next(filter(None, (_fault(mask, pixels) for mask in value)), "")

    def distance(self, recorded: Any, now: Any) -> float:
        """Return 1 minus the mean intersection over union of corresponding masks; infinite if their number or their
        meanings differ."""
        if [mask["means"] for mask in recorded] != [mask["means"] for mask in now]:
            return math.inf
        shape = self.image.shape[:2]
        shaped = ([mask_of(mask["runs"], shape) for mask in answer] for answer in (recorded, now))
        overlaps = [overlap(first, second) for first, second in zip(*shaped, strict=True)]
        return 1.0 - math.fsum(overlaps) / len(overlaps) if overlaps else 0.0

    @classmethod
    def sections(cls, form: Mapping[str, Json]) -> CallSections:
        points = count(len(form["points"]), "point")
        return [("image", [form["image"]]), ("points", [points]), ("text", [form["text"]])]

    @classmethod
    def words(cls, value: Any) -> str:
        named = [mask["means"] for mask in value if mask["means"]]
        return f"{count(len(value), 'mask')}{', of them ' + ', '.join(named) if named else ''}"


def mask_json(mask: Array, score: float, means: str = "") -> dict[str, Json]:
    """Return a mask, bool [height, width], as an answer of `SegmentCall` holds it."""
    return {"runs": runs_of(mask), "score": float(score), "means": means}


def runs_of(mask: Array) -> list[int]:
    """Return the lengths of alternating runs of False and True, row by row and beginning with False.

    >>> runs_of(np.array([[True, True, False], [False, False, True]]))
    [0, 2, 3, 1]
    """
    flat = np.concatenate([[False], np.asarray(mask, bool).ravel()])
    starts = np.flatnonzero(flat[1:] != flat[:-1])
    runs: list[int] = np.diff(np.concatenate([[0], starts, [flat.size - 1]])).tolist()
    return runs


def mask_of(runs: Sequence[int], shape: tuple[int, ...]) -> Array:
    """Return the mask, bool [height, width], that `runs_of` was given.

    >>> mask_of([0, 2, 3, 1], (2, 3)).tolist()
    [[True, True, False], [False, False, True]]
    """
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(shape)


def overlap(first: Array, second: Array) -> float:
    """Return the intersection over union of two masks of one shape; 1 if both are empty."""
    union = np.count_nonzero(first | second)
    return np.count_nonzero(first & second) / union if union else 1.0


def point_of(pair: Json) -> tuple[float, float]:
    """Return a point of a canonical form; raise ValueError unless it is two finite numbers."""
    match pair:
        case [x, y] if all(type(coordinate) in (int, float) and math.isfinite(coordinate) for coordinate in (x, y)):
            return float(x), float(y)
    raise ValueError(f"{str(pair)[:80]!r} is no point [column, row]")


def _fault(mask: Any, pixels: int) -> str:
    match mask:
        case {"runs": list(runs), "score": float(score), "means": str(means), **rest} if not rest:
            if not all(type(run) is int and 0 <= run <= pixels for run in runs) or sum(runs) != pixels:
                return f"the runs of a mask do not add up to the image's {pixels} pixels"
            if not 0 <= score <= 1:
                return f"the score {score} of a mask is outside [0, 1]"
            expected = ", ".join(MEANINGS[1:])
            return "" if means in MEANINGS else f"a mask means {means[:80]!r}; expected one of {expected}"
    return "a mask has runs, a score and a meaning"
