"""What is drawn over the views: where, in which colours, and how little it hides."""

import numpy as np
import pytest
from scipy import ndimage

from guidebench.methods.kagi import marks
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.questions import Candidates
from tests.methods.kagi.scenes import CANDIDATES, GRASP, TARGET, painted

GRID = Grid(6)
ABOVE, BESIDE = painted({"green": (0.4, 0.6, 0.7)}, 400)[:, :400], painted({"green": (0.4, 0.6, 0.7)}, 400)[:, 400:]


def test_small_views_are_enlarged_by_a_whole_number_and_found_again_within_the_margins() -> None:
    for size, side in ((48, 432), (64, 448), (100, 400), (199, 597), (200, 200), (480, 480)):
        assert marks.enlarged(np.zeros((size, size, 3), np.uint8)).shape == (side, side, 3)
    for size in range(200, 1025, 3):
        margin = round(size / marks.MARGIN)
        assert len(marks.inner(np.zeros((size + margin, size + margin, 3), np.uint8))) == size


def test_the_grid_stands_at_sixths_and_everything_else_is_as_it_was() -> None:
    """A view of 400 pixels gets margins of 20; its lines are at 67, 133, 200, 267 and 333."""
    image = marks.from_above(ABOVE, GRID, CANDIDATES)
    assert image.shape == (420, 420, 3)
    view, drawn = marks.inner(image), marks.drawn_over(marks.inner(image))
    assert np.array_equal(view[~drawn], ABOVE[~drawn]), "what is not drawn over is as it was"
    full_columns, full_rows = (np.flatnonzero(drawn.all(axis)).tolist() for axis in (0, 1))
    assert full_columns == full_rows == [67, 133, 200, 267, 333]
    assert drawn.mean() < 0.06, "little of the view is hidden"
    assert not np.array_equal(image, marks.from_above(ABOVE, Grid(4), CANDIDATES))


def test_lines_of_height_stand_at_sixths_of_the_view_from_the_side() -> None:
    image = marks.from_the_side(BESIDE, GRID)
    drawn = marks.drawn_over(marks.inner(image))
    assert np.flatnonzero(drawn.all(1)).tolist() == [0, 67, 133, 200, 267, 333, 399]
    assert drawn.mean() < 0.02
    dark = marks.from_the_side(np.zeros_like(BESIDE), GRID)[20:], marks.from_the_side(np.full_like(BESIDE, 255), GRID)
    assert all(len(np.unique(view[-1, 20:].reshape(-1, 3), axis=0)) == 2 for view in dark), "two tones, for any ground"


def test_every_name_of_column_row_and_line_is_in_the_margin() -> None:
    """Ink stands above the middle of each column and beside the middle of each row, and beside each line."""
    image = marks.from_above(ABOVE, GRID, CANDIDATES)
    ink = (image == marks.INK).all(-1)
    tops, sides = np.flatnonzero(ink[:20].any(0)), np.flatnonzero(ink[:, :20].any(1))
    for number in range(6):
        middle = 20 + (number + 0.5) * 400 / 6
        assert np.abs(tops - middle).min() < 4 and np.abs(sides - middle).min() < 7
    lines = np.flatnonzero((marks.from_the_side(BESIDE, GRID) == marks.INK).all(-1)[:, :20].any(1))
    for number in range(7):
        assert np.abs(lines - (20 + number * 400 / 6)).min() < 8


@pytest.mark.parametrize("size", [100, 200, 480])
def test_points_are_drawn_where_they_are_each_in_its_own_colour(size: int) -> None:
    image = marks.from_above(painted({}, size)[:, :size], GRID, CANDIDATES)
    for base, points in ((marks.TEAL, GRASP), (marks.BLUE, TARGET)):
        centres = marks.found_points(image, base)
        assert [*centres] == [1, 2, 3, 4, 5]
        assert np.abs(np.array([*centres.values()]) - points).max() < 0.006


def test_what_was_drawn_over_is_painted_over_by_what_is_beside_it() -> None:
    """Over one colour nothing remains; over painted things, hardly a pixel is another thing's, and none is a mark's."""
    plain = np.full_like(ABOVE, (90, 120, 40))
    assert np.array_equal(marks.cleaned(marks.from_above(plain, GRID, CANDIDATES)), plain)
    view = marks.cleaned(marks.from_above(ABOVE, GRID, CANDIDATES))
    assert (view != ABOVE).any(-1).mean() < 0.01 and not marks.drawn_over(view).any()


def test_labels_cover_neither_the_thing_nor_each_other() -> None:
    """Within the square of the grasp candidates there are dots and thin lines to the labels, and no label."""
    view = marks.inner(marks.from_above(ABOVE, GRID, CANDIDATES))
    box = view[round(0.575 * 400) : round(0.625 * 400), round(0.375 * 400) : round(0.425 * 400)]
    assert (box == marks.TAGS[0]).all(-1).mean() < 0.1 and marks.drawn_over(box).mean() < 0.7
    for tag in marks.TAGS:
        label = (view == tag).all(-1) | (view == marks.PAPER).all(-1)
        assert ndimage.label(ndimage.binary_opening(label, np.ones((9, 9))))[1] == 5, "no two labels touch"


def test_points_at_the_edge_and_in_a_heap_are_drawn() -> None:
    at_edges = Candidates([[0, 0], [1, 0], [0, 1], [1, 1]], [[0.5, 0.5]] * 9)
    image = marks.from_above(ABOVE, GRID, at_edges)
    assert len(marks.found_points(image, marks.TEAL)) == 4
    assert [*marks.found_points(image, marks.BLUE)] == [9], "the last is on top of the others"
    assert np.array_equal(image, marks.from_above(ABOVE, GRID, at_edges)), "drawn alike each time"
