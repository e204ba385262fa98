"""Frames from snapshots, pixel for pixel those of MiniGrid's `get_frame(highlight=False)`.

Every distinct cell is drawn once, by MiniGrid's own `Grid.render_tile`; a frame is then a gather of tile rows. The
brighter patch that MiniGrid draws over the agent's partial view is left out, because the agent here sees the whole
grid.
"""

from __future__ import annotations

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

NOBODY = 4
"""Placeholder for the agent's direction in cells without the agent."""


class DoorKeyDrawer:
    """A Drawer: snapshots uint8 [L, 3 size² + 3] of `DoorKey(size)` -> frames uint8 [L, height, width, 3]."""

    def __init__(self, size: int, tile_size: int) -> None:
        self._size = size
        self._tile_size = tile_size
        self._row = np.dtype((np.void, 3 * tile_size))
        self._atlas = np.empty(0, self._row)
        self._place = np.full(2**16, -1, np.int64)

    def __call__(self, snapshots: Array) -> Array:
        n, pixels = self._size, self._tile_size
        cells = self._cells(np.asarray(snapshots))
        for cell in np.unique(cells[self._place[cells] < 0]):
            self._place[cell] = len(self._atlas)
            self._atlas = np.concatenate([self._atlas, self._rows(int(cell))])
        starts = self._place[cells].transpose(0, 2, 1)  # snapshots are indexed by column first, pictures by row
        rows = starts[:, :, None, :] + np.arange(pixels)[None, None, :, None]
        return self._atlas.take(rows).view(np.uint8).reshape(len(cells), n * pixels, n * pixels, 3)

    def _cells(self, snapshots: Array) -> Array:
        """Return one number per cell, int64 [L, size, size], that encodes object, colour, state and the agent's
        direction."""
        n = self._size
        if snapshots.ndim != 2 or snapshots.shape[1] != 3 * n * n + 3:
            raise UserError(f"snapshots of shape {snapshots.shape} given, [L, {3 * n * n + 3}] expected")
        codes = snapshots[:, :-3].reshape(-1, n, n, 3).astype(np.int64)
        x, y, direction = snapshots[:, -3:].astype(np.int64).T
        agent = np.full(codes.shape[:3], NOBODY)
        agent[np.arange(len(codes)), x, y] = direction
        return np.asarray(((codes[..., 0] << 4 | codes[..., 1]) << 4 | codes[..., 2]) << 4 | agent)

    def _rows(self, cell: int) -> Array:
        kind, color, state, direction = cell >> 12, cell >> 8 & 15, cell >> 4 & 15, cell & 15
        tile = self._tile(kind, color, state, None if direction == NOBODY else direction)
        return tile.reshape(self._tile_size, -1).view(self._row)[:, 0]

    def _tile(self, kind: int, color: int, state: int, direction: int | None) -> Array:
        """Return a cell's tile, uint8 [pixels, pixels, 3], with an agent facing `direction` or without."""
        thing = WorldObj.decode(kind, color, state)
        tile: Array = Grid.render_tile(thing, direction, tile_size=self._tile_size).astype(np.uint8)
        return tile
