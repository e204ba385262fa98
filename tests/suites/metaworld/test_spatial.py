"""The embedder `spatial`: the numbers of a frame by hand, and how its distances follow those in the world."""

from typing import Any

import numpy as np
import pytest

from guidebench.harness.models import distances
from guidebench.harness.models.calls import EmbedCall
from guidebench.suites.metaworld.spatial import CENTRE, METRES, UNIT, WIDTH, Spatial, of_frame

CYAN, RED, GREEN = (20, 220, 230), (150, 20, 20), (30, 200, 30)


def frame(*squares: tuple[int, int, int, tuple[int, int, int]]) -> Any:
    """Return a grey frame of 256 pixels with squares (row, column, side, colour)."""
    pixels = np.full((256, 256, 3), 128, np.uint8)
    for row, column, side, colour in squares:
        pixels[row : row + side, column : column + side] = colour
    return pixels


def test_the_gripper_is_where_finger_and_arm_are() -> None:
    """Squares of 4 pixels at 100 and 110, and of 8 at 60 and 40: their centres are at 101.5, 111.5, 63.5 and 43.5."""
    vector = of_frame(frame((100, 110, 4, CYAN), (60, 40, 8, RED)))
    places = np.array([101.5, 111.5, 63.5, 43.5]) / 256
    np.testing.assert_allclose(vector[:3], (places - CENTRE) @ METRES / UNIT, rtol=1e-5)
    assert vector.shape == (WIDTH,) and not vector[3:].any()


def test_a_drawer_counts_by_its_place_and_a_dot_hardly() -> None:
    """A green square of 10 pixels, n = 100, has presence 100/140; its centre is at 14.5 and 200.5 of 256."""
    vector = of_frame(frame((10, 196, 10, GREEN)))
    presence = 100 / 140
    expected = presence * np.array([12 * (14.5 / 256 - 0.5), 12 * (200.5 / 256 - 0.5), 1])
    np.testing.assert_allclose(vector[3:6], expected, rtol=1e-5)
    dot = of_frame(frame((10, 196, 2, GREEN)))
    assert dot[5] == pytest.approx(4 / 44)


def test_a_frame_without_arm_has_a_gripper_at_the_centre_and_texts_have_the_same_width() -> None:
    embed = Spatial().spawn(None, "")  # type: ignore[arg-type]
    vectors = embed(EmbedCall((frame(), "reach the red dot", "reach the red dot")))
    assert vectors.shape == (3, WIDTH) and not vectors[0].any() and vectors[1].any()
    np.testing.assert_array_equal(vectors[1], vectors[2])


def test_ranks_of_distances_by_hand() -> None:
    """Ranks (1, 2, 3.5, 3.5) and (1, 3, 2, 4): their correlation is .632."""
    assert distances.spearman(np.array([0.0, 1, 2, 2]), np.array([0.0, 5, 3, 9])) == pytest.approx(0.6325, abs=1e-4)
    assert np.isnan(distances.spearman(np.ones(3), np.arange(3)))


def test_distances_follow_the_world_on_reach(opengl: None) -> None:
    pytest.importorskip("metaworld")
    from guidebench.suites.metaworld import MetaWorldDrawing, MetaWorldMT10

    embed = Spatial().spawn(None, "")  # type: ignore[arg-type]
    comparison = distances.measure(
        lambda frames: embed(EmbedCall(tuple(frames))), MetaWorldMT10(), "reach", MetaWorldDrawing(), seeds=(41,)
    )
    assert comparison.rank_correlation > 0.6 and 0.5 < comparison.median < 2
    assert comparison.ranked is not None and comparison.ranked > 1 / 3 and comparison.pairs == 101 * 100 / 2
