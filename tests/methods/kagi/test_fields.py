"""The dense reward as a field over the pixels of both views, by numbers worked by hand."""

import numpy as np
import pytest

from guidebench.methods.kagi import fields
from guidebench.methods.kagi.rewards import Shape, dense

SHAPE = Shape(0.1, 15.0)
AT, ON = 0.95257, 0.5
"""The reward at the aim, and φ = 15 pixels from it."""
CAMERAS = np.array([
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
    [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
], float)  # fmt: skip
"""Cameras of a view from above that shows x and y of the world, and of a side view that shows x and z."""
WAY = np.array([[10.5, 50.5, 30.5], [50.5, 50.5, 30.5], [50.5, 50.5, 60.5]])


def test_from_above_each_pixel_has_the_height_of_the_waypoint_nearest_to_it() -> None:
    field = fields.above(WAY, SHAPE, 100)
    assert field.shape == (100, 100)
    assert field[50, 50] == pytest.approx(AT, abs=1e-5), "of two waypoints there, the last and its height count"
    assert field[50, 65] == field[65, 50] == pytest.approx(ON, abs=1e-5)
    assert field[50, 10] == pytest.approx(0.00669, abs=1e-5), "40 pixels from the second: .5 (1 - tanh(2.5))"
    # Beyond the middle at column 30.5 the height is 60.5: the third is nearest, and 19 pixels away.
    assert field[50, 31] == pytest.approx(0.5 * (1 - np.tanh(0.4)), abs=1e-5)
    assert field[50, 29] == pytest.approx(0.5 * (1 - np.tanh(0.6)), abs=1e-5), "21 from the second, at its height"
    np.testing.assert_array_equal(fields.above(WAY, SHAPE._replace(onward=True), 100), field), "it has no history"
    flat = fields.above(WAY[:2, :2], SHAPE, 100)
    assert [flat[50, column] for column in (50, 65)] == pytest.approx([AT, ON], abs=1e-5), "it needs no heights"


def test_from_the_side_a_pixel_is_reached_along_the_view_from_the_nearest_waypoint() -> None:
    field = fields.beside(WAY, CAMERAS, SHAPE, 100)
    assert field[60, 50] == pytest.approx(AT, abs=1e-5)
    assert field[75, 50] == field[60, 65] == pytest.approx(ON, abs=1e-5)
    assert field[30, 50] == pytest.approx(0.5 * (1 - np.tanh(1.5)), abs=1e-5), "at the second, 30 below is the third"
    for index, (column, _, row) in enumerate(WAY.astype(int).tolist()):
        assert field[row, column] == pytest.approx(float(dense(WAY, WAY, SHAPE)[index]), abs=1e-5)
    assert np.isnan(fields.beside(WAY, CAMERAS[[0, 0]], SHAPE, 10)).all(), "two equal views determine no place"
