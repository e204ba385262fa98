"""Blocks of a path: tiles of the view from above and lines of the view from the side, and their places.

Places are fractions of a view's side in [0, 1]: u = column / size and v = row / size in the view from above, and
h = row / size in the view from the side, which therefore grows downwards. A grid of n divides the view from above into
n × n tiles, named by their column (a letter, from the left) and their row (a number, from the top); n + 1 lines divide
the view from the side, numbered upwards from 0 at its lower edge to n at its upper one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FEWEST, MOST = 2, 20
"""Number of blocks of a path (choice: a path has a beginning and an end, and 20 lead across a 6 × 6 grid and back)."""
Block = tuple[str, int | None]
"""A tile, and a line, or None where a model sees no view from the side."""
_TILE = re.compile(r"([a-z])([1-9][0-9]?)")


class Grid(NamedTuple):
    """The division of both views."""

    size: int = 6
    """Tiles along a side of the view from above, n, and spaces between the lines of the view from the side."""
    heights: bool = True
    """Whether blocks have lines; False where only the view from above is shown."""

    @property
    def last(self) -> str:
        """The letter of the last column."""
        return chr(ord("a") + self.size - 1)

    def position(self, tile: str) -> tuple[int, int] | None:
        """Return column and row of a tile, each from 0; None for a text that names no tile of this grid.

        >>> Grid(6).position("c4"), Grid(6).position(" C4 "), Grid(6).position("g7"), Grid(6).position("4c")
        ((2, 3), (2, 3), None, None)
        """
        match = _TILE.fullmatch(tile.strip().lower())
        if match is None:
            return None
        column, row = ord(match[1]) - ord("a"), int(match[2]) - 1
        return (column, row) if max(column, row) < self.size else None

    def name(self, column: int, row: int) -> str:
        """Return the name of the tile in this column and row, each from 0.

        >>> Grid(6).name(2, 3)
        'c4'
        """
        return f"{chr(ord('a') + column)}{row + 1}"

    def waypoint(self, block: Block) -> list[float]:
        """Return a block's place: the centre of its tile, (u, v), and, with heights, the row of its line, h (KAGI,
        §III-C: the centroid of a tile and a height).

        >>> Grid(6).waypoint(("c4", 2)), Grid(4, heights=False).waypoint(("a1", None))
        ([0.4166666666666667, 0.5833333333333334, 0.6666666666666666], [0.125, 0.125])
        """
        tile, line = block
        cell = self.position(tile)
        assert cell is not None, f"{tile} is a tile of the grid"
        place = [(index + 0.5) / self.size for index in cell]
        return place if line is None else [*place, (self.size - line) / self.size]

    def nearest(self, place: Sequence[float]) -> tuple[int, int, int]:
        """Return the column and row of the tile in which a place (u, v, h) lies, and the line nearest to it; a place
        outside the views belongs to the nearest tile or line. Without heights the line is 0 and h may be missing.

        >>> Grid(6).nearest((0.4, 0.6, 0.7)), Grid(6).nearest((-0.1, 1.0, 1.2))
        ((2, 3, 2), (0, 5, 0))
        """
        column, row = (min(max(int(coordinate * self.size), 0), self.size - 1) for coordinate in place[:2])
        line = round(self.size * (1 - place[2])) if self.heights else 0
        return column, row, min(max(line, 0), self.size)

    def block(self, column: int, row: int, line: int) -> Block:
        """Return the block of this column, row and line, each from 0; without heights it has no line."""
        return self.name(column, row), line if self.heights else None


def path(
    grid: Grid, thing: Sequence[float], place: Sequence[float], start: Sequence[float] | None = None
) -> list[Block]:
    """Return the blocks of a path that carries a thing to a place, both (u, v, h): from `start`, where it is known,
    over the thing, down to it, up towards the place, over the place and down to it. It rises by a sixth of the view
    over the higher of the two, to the upper edge at most.

    Neighbouring blocks differ by at most one column, row and line, since KAGI's reward is flat at larger distances; a
    path that would have more than `MOST` blocks takes larger steps. No block is passed twice, since the reward, which
    knows a position and no history, would send the gripper back there: the path rises beside the thing, in the next
    tile towards the place, or at once to its full height if that is the place's tile; it does not rise where thing and
    place are in one tile; and the way from `start` leaves out the blocks over which the thing is carried. A path within
    a single block begins in the next tile towards the middle of the view.
    """
    low, lowered = grid.nearest(thing), grid.nearest(place)
    over = min(max(low[2], lowered[2]) + max(1, round(grid.size / 6)), grid.size) if grid.heights else 0
    above, arrived = (*low[:2], over), (*lowered[:2], over)
    beside = next(itertools.islice(_steps((above, arrived), 1), 1, None), above)
    down, up = [above, low], [beside, arrived, lowered]
    if low[:2] == lowered[:2]:
        up = [low, lowered]
    elif beside != arrived:
        up.insert(0, (*beside[:2], min(low[2] + 1, over)))
    if start is not None:
        down.insert(0, grid.nearest(start))
    blocks: list[Block] = []
    for stride in range(1, grid.size + 1):
        passed = [*_steps(down, stride), *_steps(up, stride)]
        blocks = [grid.block(*corner) for corner in reversed(dict.fromkeys(reversed(passed)))]
        if len(blocks) <= MOST:
            break
    if len(blocks) < FEWEST:
        aside = low[0] + (1 if low[0] < grid.size // 2 else -1)
        blocks.insert(0, grid.block(aside, *low[1:]))
    return blocks


def _steps(corners: Sequence[tuple[int, int, int]], stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield the corners, and between them straight steps of at most `stride` in each direction."""
    yield corners[0]
    for before, after in itertools.pairwise(corners):
        count = -(-max(abs(b - a) for a, b in zip(before, after, strict=True)) // stride)
        for step in range(1, count + 1):
            column, row, line = (int(a + (b - a) * step / count + 0.5) for a, b in zip(before, after, strict=True))
            yield column, row, line
