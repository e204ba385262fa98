"""Where masks put a point, what is no answer to `track`, and how far apart two answers are."""

from typing import Any

import numpy as np
import pytest

from guidebench.harness.models.calls import TrackCall
from guidebench.harness.models.calls.track import track_of_masks

CALL = TrackCall(np.zeros((3, 10, 20, 3), np.uint8), (4.0, 5.0))
GOOD = np.array([[4, 5, 1], [0, 0, 0], [6, 5, 1]], np.float32)


def moving() -> np.ndarray:
    """A square of 4 pixels that moves by 3 columns, vanishes, and comes back 2 rows lower."""
    masks = np.zeros((4, 10, 20), bool)
    masks[0, 2:6, 1:5] = masks[1, 2:6, 4:8] = masks[3, 4:8, 4:8] = True
    return masks


def test_a_point_keeps_its_place_on_the_object() -> None:
    found = track_of_masks(moving(), (2.0, 5.0))  # centroid (3, 4); one left of it and one below
    assert found.tolist() == [[2, 5, 1], [5, 5, 1], [0, 0, 0], [5, 7, 1]]
    assert found.dtype == np.float32 and TrackCall(np.zeros((4, 10, 20, 3), np.uint8), (2.0, 5.0)).fault(found) == ""


@pytest.mark.parametrize("point", [(15.0, 8.0), (-1.0, 3.0), (2.0, 90.0)])
def test_a_point_beside_the_object_is_its_centroid(point: tuple[float, float]) -> None:
    assert track_of_masks(moving(), point).tolist() == [[3, 4, 1], [6, 4, 1], [0, 0, 0], [6, 6, 1]]


def test_an_object_that_is_hidden_at_first_is_found_later() -> None:
    assert track_of_masks(moving()[2:], (2.0, 5.0)).tolist() == [[0, 0, 0], [6, 6, 1]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (GOOD[:2], "expected float32 [3, 3]"),
        (GOOD.astype(np.float64), "expected float32 [3, 3]"),
        (None, "expected float32 [3, 3], got NoneType"),
        (np.where(GOOD == 6, np.inf, GOOD).astype(np.float32), "not finite"),
        (GOOD * np.float32(0.5), "neither seen (1) nor lost"),
        (np.array([[4, 5, 1], [4, 5, 0], [6, 5, 1]], np.float32), "neither seen (1) nor lost"),
    ],
)
def test_other_answers_are_refused(value: Any, said: str) -> None:
    assert CALL.fault(GOOD) == "" and said in CALL.fault(value)


def test_the_distance_is_in_parts_of_a_frames_width() -> None:
    moved = GOOD + np.array([[0, 0, 0], [0, 0, 0], [3, 4, 0]], np.float32)
    assert CALL.distance(GOOD, moved) == pytest.approx(5 / 20) and CALL.distance(GOOD, GOOD) == 0
    lost = GOOD * np.array([[1], [1], [0]], np.float32)
    assert CALL.distance(GOOD, lost) == np.inf == CALL.distance(GOOD, GOOD[:2])
    assert CALL.words(GOOD) == "the point in 3 frames; it is seen in 2"
