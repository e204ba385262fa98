"""Calls to segment: masks as runs of pixels, which answers are malformed, and the distance of two answers."""

from typing import Any

import numpy as np
import pytest

from guidebench.harness.models.calls import SegmentCall
from guidebench.harness.models.calls.segment import mask_json, mask_of, overlap, runs_of

CALL = SegmentCall(np.zeros((2, 3, 3), np.uint8), ((0.5, 0.5),))
GOOD = {"runs": [1, 5], "score": 0.5, "means": "place"}


@pytest.mark.parametrize(
    ("mask", "runs"),
    [
        ([[0, 0, 0], [0, 0, 0]], [6]),
        ([[1, 1, 1], [1, 1, 1]], [0, 6]),
        ([[0, 1, 1], [1, 0, 0]], [1, 3, 2]),
        ([[1, 0, 0], [0, 0, 1]], [0, 1, 4, 1]),
    ],
)
def test_a_mask_is_told_by_its_runs(mask: Any, runs: list[int]) -> None:
    shape = np.array(mask, bool)
    assert runs_of(shape) == runs and (mask_of(runs, (2, 3)) == shape).all()
    assert CALL.fault([mask_json(shape, 0.25)]) == ""


def test_random_masks_come_back() -> None:
    for mask in np.random.default_rng(0).random((20, 7, 5)) < 0.5:
        assert (mask_of(runs_of(mask), (7, 5)) == mask).all()


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, "a list"),
        ([GOOD] * 8193, "at most 8192"),
        ([{**GOOD, "runs": [1, 4]}], "do not add up to the image's 6 pixels"),
        ([{**GOOD, "runs": [-1, 7]}], "do not add up"),
        ([{**GOOD, "runs": [1.0, 5.0]}], "do not add up"),
        ([{**GOOD, "runs": [True, 5]}], "do not add up"),
        ([{**GOOD, "score": 1.5}], "score 1.5 of a mask is outside"),
        ([{**GOOD, "score": float("nan")}], "outside"),
        ([{**GOOD, "means": "sky"}], "means 'sky'; expected one of thing, place"),
        ([{**GOOD, "more": 0}], "a mask has"),
        ([GOOD, {"runs": [6]}], "a mask has"),
        ([None], "a mask has"),
    ],
)
def test_other_answers_are_refused(value: Any, fault: str) -> None:
    assert CALL.fault([GOOD]) == CALL.fault([]) == "" and fault in CALL.fault(value)


def test_the_distance_is_one_minus_the_mean_overlap() -> None:
    masks = [mask_json(np.array([[1, 1, 0], [0, 0, 0]], bool), 1.0), mask_json(np.zeros((2, 3), bool), 1.0)]
    other_masks = [mask_json(np.array([[0, 1, 1], [1, 0, 0]], bool), 0.5), mask_json(np.zeros((2, 3), bool), 1.0)]
    assert CALL.distance(masks, masks) == 0
    assert CALL.distance(masks, other_masks) == pytest.approx(1 - (1 / 4 + 1) / 2), (
        "one pixel of four is in both first masks"
    )
    assert CALL.distance(masks, masks[:1]) == np.inf == CALL.distance(masks, [{**masks[0], "means": "thing"}, masks[1]])
    assert CALL.distance([], []) == 0 and overlap(np.ones(3, bool), np.zeros(3, bool)) == 0


def test_what_a_page_says_of_it() -> None:
    fields = dict(SegmentCall.sections({"image": {"image": "0"}, "points": [[1, 2]] * 256, "text": "a key"}))
    assert fields == {"image": [{"image": "0"}], "points": ["256 points"], "text": ["a key"]}
    assert SegmentCall.words([GOOD, {**GOOD, "means": ""}]) == "2 masks, of them place" and CALL.words([]) == "0 masks"
