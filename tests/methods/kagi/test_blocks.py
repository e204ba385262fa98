"""Places of blocks, and paths, by values worked by hand."""

from itertools import pairwise

import numpy as np
import pytest

from guidebench.methods.kagi.blocks import FEWEST, MOST, Block, Grid, path


def test_a_block_is_the_centre_of_its_tile_and_the_row_of_its_line() -> None:
    for grid, block, waypoint in (
        (Grid(6), ("a1", 0), [1 / 12, 1 / 12, 1.0]), (Grid(6), ("f3", 6), [11 / 12, 5 / 12, 0.0]),
        (Grid(4, heights=False), ("b4", None), [0.375, 0.875]),
    ):  # fmt: skip
        assert grid.waypoint(block) == pytest.approx(waypoint)
    for grid, place, nearest in (
        (Grid(6), (0.4, 0.6, 0.7), (2, 3, 2)),  # (1 - .7) * 6 = 1.8
        (Grid(6), (0.5, 0.0, 0.6), (3, 0, 2)),  # a tile begins at its left edge; (1 - .6) * 6 = 2.4
        (Grid(6), (1.0, -0.2, -0.1), (5, 0, 6)),  # what is outside belongs to the nearest
        (Grid(4, heights=False), (0.3, 0.9), (1, 3, 0)),
    ):
        assert grid.nearest(place) == nearest
    assert [Grid(6).position(name) for name in ("g1", "a7", "a0", "4c", "c", "", "c44", "ä1", "cc1")] == [None] * 9


def test_every_tile_is_found_by_its_name() -> None:
    for size in (2, 6, 12):
        grid = Grid(size)
        for column in range(size):
            for row in range(size):
                name = grid.name(column, row)
                assert grid.position(name) == (column, row)
                assert grid.nearest(grid.waypoint((name, row))) == (column, row, row)


def test_a_path_goes_over_the_thing_down_to_it_and_over_the_place_down_to_it() -> None:
    """The thing is in c4 at line 2, the place in e2 at line 3: it travels one line above the higher of them."""
    assert path(Grid(6), (0.4, 0.6, 0.7), (0.8, 0.2, 0.5)) == [
        ("c4", 4), ("c4", 3), ("c4", 2), ("d3", 3), ("d3", 4), ("e2", 4), ("e2", 3),
    ]  # fmt: skip
    flat = path(Grid(6, heights=False), (0.4, 0.6), (0.8, 0.2))
    assert flat == [("c4", None), ("d3", None), ("e2", None)]


def test_a_path_may_begin_where_the_gripper_is() -> None:
    assert path(Grid(6), (0.4, 0.6, 1.0), (0.5, 0.6, 0.7)) == [
        ("c4", 3), ("c4", 2), ("c4", 1), ("c4", 0), ("d4", 3), ("d4", 2),
    ], "to the next tile it rises at once"  # fmt: skip
    from_gripper = path(Grid(6), (0.4, 0.6, 0.7), (0.8, 0.2, 0.5), start=(0.5, 0.8, 0.2))
    assert from_gripper[:4] == [("d5", 5), ("c4", 4), ("c4", 3), ("c4", 2)]


def test_a_path_within_one_tile_has_two_blocks_or_more() -> None:
    for grid, thing, place, blocks in (
        (Grid(6, heights=False), (0.1, 0.1), (0.12, 0.12), [("b1", None), ("a1", None)]),
        (Grid(6, heights=False), (0.9, 0.9), (0.9, 0.9), [("e6", None), ("f6", None)]),
        (Grid(6), (0.1, 0.1, 0.5), (0.1, 0.1, 0.5), [("a1", 4), ("a1", 3)]),
        (Grid(2), (0.1, 0.1, 0.0), (0.1, 0.1, 0.0), [("b1", 2), ("a1", 2)]),  # nothing is above the upper edge
    ):
        assert path(grid, thing, place) == blocks


def largest_step(grid: Grid, blocks: list[Block]) -> int:
    """Return the largest difference of column or row between neighbouring blocks."""
    positions = [np.array(grid.position(tile)) for tile, _ in blocks]
    return max(int(np.abs(after - before).max()) for before, after in pairwise(positions))


def test_any_path_is_short_connected_and_without_a_block_twice() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 6, 9, 12):
        for heights in (True, False):
            grid = Grid(size, heights)
            for thing, place in rng.uniform(0, 1, (40, 2, 3)):
                blocks = path(grid, thing, place)
                assert largest_step(grid, blocks) <= 1 or len(blocks) >= MOST / 2
                low, end = (grid.block(*grid.nearest(position)) for position in (thing, place))
                for tiles in (blocks, path(grid, thing, place, start=rng.uniform(0, 1, 3))):
                    assert FEWEST <= len(tiles) <= MOST and low in tiles and tiles[-1] == end
                    assert len(set(tiles)) == len(tiles), (thing, place, tiles)
