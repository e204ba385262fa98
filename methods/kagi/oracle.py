"""Privileged keypoints and waypoints, made from the true places of the thing and of its target, in the form of the
answers of segmenter and model: what both could do if they never misjudged a position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, Question
from guidebench.methods.kagi import questions
from guidebench.methods.kagi.blocks import path

APART = 0.02
"""Distance of keypoints from a place, a fraction of the view's side (choice: about half a block of bin sorting)."""


class PointReader:
    """Answers the segmenter's questions from true places, in the form of `keypoints.Keypoints`."""

    def __init__(self, error: float) -> None:
        """`error`: probability that thing and place are confused with each other."""
        self._error = error

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any] | None:
        """Return keypoints by a question whose `measures`, float32 [2, 3], are the places (u, v, h) of the thing and of
        where it is to be: each place itself and four points around it. None where the view from above does not show
        both."""
        places = _places(question)[:, :2].astype(float)
        if not ((places >= 0) & (places <= 1)).all():
            return None
        if generator.random() < self._error:
            places = places[::-1]
        around = APART * np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
        grasp, target = (np.round(np.clip(place + around, 0, 1), 6).tolist() for place in places)
        return {"grasp": grasp, "target": target, "objects": 2}


def _places(question: Question) -> Array:
    places = question.measures
    assert places is not None and places.shape == (2, 3), "the guide sends an oracle the places of both"
    return places


class PoseReader:
    """Answers questions for waypoints from true places, in the form of `questions.answer`."""

    def __init__(self, error: float) -> None:
        """`error`: probability that the path is shifted by a tile."""
        self._error = error

    def __call__(self, question: Question, generator: np.random.Generator) -> dict[str, Any] | None:
        """Return the answer to a question whose `measures`, float32 [2, 3], are the places (u, v, h) of the thing and
        of where it is to be; None if one of them is not finite, as behind a camera.

        An erroneous path is shifted by one tile to the left, to the right, up or down, the direction drawn uniformly
        from those in which no end of it would leave the view."""
        query, places = questions.read(json.loads(question.content)), _places(question)
        if not np.isfinite(places).all():
            return None
        thing, place = places.astype(float)
        grasp, target = (
            1 + int(np.linalg.norm(np.subtract(points, centre[:2]), axis=1).argmin())
            for points, centre in zip(query.candidates, (thing, place), strict=True)
        )
        if generator.random() < self._error:
            by = _shift(query.grid.nearest(thing)[:2], query.grid.nearest(place)[:2], query.grid.size, generator)
            thing[:2] += by
            place[:2] += by
        return questions.answer(grasp, target, path(query.grid, thing, place, query.start), query.grid)


def _shift(
    thing: Sequence[int], place: Sequence[int], size: int, generator: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return a shift (u, v) of one tile that keeps both tiles in the view where there is one."""
    steps = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
    ends = np.array([thing, place]) + steps[:, None]
    inside = np.flatnonzero(((ends >= 0) & (ends < size)).all((1, 2)))
    return np.asarray(steps[generator.choice(inside if len(inside) else 4)] / size)
