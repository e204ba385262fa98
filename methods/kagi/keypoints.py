"""The dialogue with the segmenter: masks of the view from above, and five grasp and five target points in them (KAGI,
§III-B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from guidebench.baselines.conversing import unlike
from guidebench.harness.interfaces import Array, Drawer
from guidebench.harness.models.calls import AskModel, Json, SegmentCall
from guidebench.harness.models.calls.segment import mask_of, overlap
from guidebench.methods.kagi.sight import views

POINTS = 5
"""Grasp points, and target points, between which the model chooses (KAGI, §III-B)."""
LARGEST = 0.25
"""Share of the view above which a mask is the ground rather than a thing (choice)."""
SPECK = 5e-4
"""Share of the view below which a mask, or a blob of a colour, is a speck (choice: a block of bin sorting takes ten
times as much)."""
SAME = 0.7
"""Overlap from which two masks are of one thing (SAM 2, released code: its automatic mask generator)."""
CORE = 0.5
"""Points are sampled where the distance from a mask's edge is at least this part of its largest (choice: a point on the
edge of a block is no grasp)."""


class Keypoints:
    """The dialogue with the segmenter: it finds five grasp points and five target points by one call."""

    calls = 1

    def __init__(self, grid: int = 16, quality: float = 0.8) -> None:
        """`grid`: points along each side of the view at which masks are asked for; `quality`: least score of a mask
        without a meaning (one that is neither `thing` nor `place`)."""
        self._grid, self._quality = grid, quality

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Json] | None:
        """Return {"grasp": [[u, v], … 5], "target": [[u, v], … 5], "objects": K}, in fractions of the view from above's
        side; None if the model failed or found no object. `content`: {"instruction": str}; `frames`: the first
        frame of an episode, uint8 [1, size, 2 * size, 3]."""
        assert frames is not None, "an episode's first state has a frame"
        image = np.ascontiguousarray(views(frames).above[0])
        outcome = await ask(SegmentCall(image, spread(len(image), self._grid), str(content["instruction"])))
        return None if outcome.failure else chosen(outcome.value, len(image), self._quality)

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it holds no points."""
        share = {"type": "number", "minimum": 0, "maximum": 1}
        points = {"type": "array", "minItems": 1, "maxItems": 9,
                  "items": {"type": "array", "items": share, "minItems": 2, "maxItems": 2}}  # fmt: skip
        fields = {"grasp": points, "target": points, "objects": {"type": "integer"}}
        return unlike(answer, {"type": "object", "properties": fields})


def spread(size: int, grid: int) -> tuple[tuple[float, float], ...]:
    """Return the centres of grid × grid equal cells of a view, (column, row) in pixels, row by row.

    >>> spread(8, 2)
    ((2.0, 2.0), (6.0, 2.0), (2.0, 6.0), (6.0, 6.0))
    """
    at = [(index + 0.5) * size / grid for index in range(grid)]
    return tuple((column, row) for row in at for column in at)


def chosen(masks: Sequence[Json], size: int, quality: float) -> dict[str, Json] | None:
    """Return grasp points, target points and the number of things, in the form of `Keypoints`' answer, for the masks of
    a view of `size` pixels (the answer to `SegmentCall`); None without a mask for either kind of points.

    Specks are ignored, and a thing fills at most a quarter of the view. If masks have a meaning, grasp points are in
    the masks of the thing and target points in those of its place; else in the small and in the large things
    (`halves`).
    """
    shaped = [(mask, mask_of(mask["runs"], (size, size))) for mask in masks]
    largest = {"thing": LARGEST, "place": 1.0}
    named = {
        means: [shape for mask, shape in shaped if mask["means"] == means and SPECK <= shape.mean() <= most]
        for means, most in largest.items()
    }
    scored = [(mask["score"], shape) for mask, shape in shaped if mask["means"] or mask["score"] >= quality]
    shapes = things(scored)
    have_meanings = any(mask["means"] for mask in masks)
    grasp, target = (named["thing"], named["place"]) if have_meanings else halves(shapes)
    if not (grasp and target):
        return None
    places = {"grasp": sample(grasp) / size, "target": sample(target) / size}
    return {**{name: np.round(points, 6).tolist() for name, points in places.items()}, "objects": len(shapes)}


def things(scored: Sequence[tuple[float, Array]]) -> list[Array]:
    """Return the masks of distinct things, the best scored first. Left out are masks of more than a quarter of the
    view, specks, and masks that overlap a better one by `SAME` or more. `scored`: scores and masks, bool [size,
    size]."""
    distinct: list[Array] = []
    for _, mask in sorted(scored, key=lambda pair: -pair[0]):
        share = mask.mean()
        if SPECK <= share <= LARGEST and all(overlap(mask, other) < SAME for other in distinct):
            distinct.append(mask)
    return distinct


def halves(masks: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return the small and the large of several masks, bool [height, width], each in the given order. The border is
    where two consecutive areas differ by the largest factor (choice: what is grasped is small beside its place)."""
    areas = np.sort([np.count_nonzero(mask) for mask in masks])
    if len(areas) < 2 or areas[0] == areas[-1]:
        return [*masks], []
    border = areas[np.argmax(areas[1:] / areas[:-1])]
    return (
        [mask for mask in masks if np.count_nonzero(mask) <= border],
        [mask for mask in masks if np.count_nonzero(mask) > border],
    )


def sample(masks: Sequence[Array], count: int = POINTS) -> Array:
    """Return points (column, row) in pixels, float64 [count, 2], inside masks bool [height, width].

    First comes the innermost point of each mask; of more than `count`, those that are farthest from each other. The
    rest are, one after the other, the points of the masks' cores that are farthest from all chosen ones. Ties go to the
    first pixel, row by row. Points repeat where the cores have too few pixels.
    """
    cores = [core(mask) for mask in masks]
    first = np.array([deepest for deepest, _ in cores])
    points = farthest(first, np.zeros((0, 2)), min(count, len(first)))
    pixels = np.concatenate([inner for _, inner in cores])
    return farthest(pixels, points, count)


def core(mask: Array) -> tuple[Array, Array]:
    """Return the innermost pixel of a mask, [2], and the pixels of its core, [n, 2], as (column, row) of their
    centres."""
    from scipy import ndimage

    depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    rows, columns = np.nonzero(depth >= CORE * depth.max())
    deepest = np.unravel_index(depth.argmax(), depth.shape)
    return np.array(deepest[::-1]) + 0.5, np.stack([columns, rows], axis=1) + 0.5


def farthest(candidates: Array, points: Array, count: int) -> Array:
    """Return `points` [m, 2] followed by candidates [n, 2], each the one farthest from all points before it, until
    there are `count`; without points, the first candidate comes first."""
    selected = [*points]
    gaps = np.min([np.linalg.norm(candidates - point, axis=1) for point in selected], axis=0) if selected else None
    while len(selected) < count:
        selected.append(candidates[0 if gaps is None else gaps.argmax()])
        distances = np.linalg.norm(candidates - selected[-1], axis=1)
        gaps = distances if gaps is None else np.minimum(gaps, distances)
    return np.array(selected)


LOOKS = 8
"""First states in which a segmenter is tried before a run (choice: a second's work)."""


def visible_share(segmenter: Callable[[SegmentCall], Sequence[Json]], suite: Any, task: str, draw: Drawer) -> float:
    """Return the share of `LOOKS` layouts of a task in whose first frame a hand-written segmenter finds keypoints."""
    trial, hits = suite.make(task), 0
    for seed in range(LOOKS):
        trial.reset(seed)
        image = np.ascontiguousarray(views(draw(trial.snapshot()[None])).above[0])
        masks = segmenter(SegmentCall(image, (), trial.instruction))
        hits += chosen(masks, len(image), 0.0) is not None
    return hits / LOOKS
