"""Pictures from snapshots, pixel for pixel those of the package's `render`.

Every distinct cell (a material and an object) is drawn once, with the package's own textures and blending; a picture is
then a gather of tiles. Darkness, noise and sleep are the package's own functions on the gathered picture.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from crafter import constants, engine

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.crafter.game import ITEMS, MATERIALS, OBJECT_PICTURES
from guidebench.suites.crafter.snapshots import Scene, unpack

OUTSIDE = 127
"""Grey level of cells outside the world (the package's)."""
CACHED_INVENTORIES = 4096
"""Largest number of pictures of inventories to keep."""


class CrafterDrawer:
    """A Drawer: snapshots uint8 [L, n] -> pictures uint8 [L, size, size, 3].

    The view's cells and the inventory's rows have the package's places: whole cells of `size // view` pixels, centred.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._textures = engine.Textures(constants.root / "assets")
        self._view: engine.LocalView | None = None
        self._tiles = np.empty((0, 1, 1, 3), np.uint8)
        self._place = np.full(2**16, -1, np.int64)
        self._inventories: dict[bytes, Array] = {}

    def __call__(self, snapshots: Array) -> Array:
        return np.stack([self.draw(unpack(snapshot)) for snapshot in np.asarray(snapshots)])

    def draw(self, scene: Scene) -> Array:
        """Return the picture of one scene, uint8 [size, size, 3]; UserError where its cells have too few pixels."""
        grid = scene.materials.shape
        if self._view is None or tuple(self._view._grid) != grid:
            self._begin(grid)
        view, unit = self._view, self._unit
        cells = scene.materials.astype(np.int64) << 8 | scene.things
        for cell in np.unique(cells[self._place[cells] < 0]):
            self._place[cell] = len(self._tiles)
            self._tiles = np.concatenate([self._tiles, self._tile(int(cell) >> 8, int(cell) & 255)[None]])
        tiles = self._tiles[self._place[cells]]  # [column, row, x, y, 3]
        world = tiles.transpose(0, 2, 1, 3, 4).reshape(grid[0] * unit, grid[1] * unit, 3)
        assert view is not None
        if scene.noise is not None:
            words, position = scene.noise
            view._world.random.set_state(("MT19937", words, position))
        world = view._light(world, scene.daylight)
        if scene.sleeping:
            world = view._sleep(world)
        side = grid[0]
        picture = np.zeros((self._size, self._size, 3), np.uint8)
        edge = (self._size - unit * side) // 2
        picture[edge : edge + side * unit, edge : edge + grid[1] * unit] = world
        picture[edge : edge + side * unit, edge + grid[1] * unit : edge + side * unit] = self._inventory(scene)
        return picture.transpose(1, 0, 2)

    def _begin(self, grid: tuple[int, ...]) -> None:
        """Prepare for views of this many cells."""
        self._unit = self._size // grid[0]
        if self._unit < 2:
            raise UserError(
                f"a picture of {self._size} pixels has {self._unit} for each of {grid[0]} cells, and textures need 2: "
                f"set drawing.size to at least {2 * grid[0]}"
            )
        world = SimpleNamespace(area=grid, random=np.random.RandomState(0))
        self._view = engine.LocalView(world, self._textures, list(grid))
        self._tiles = np.empty((0, self._unit, self._unit, 3), np.uint8)
        self._place[:] = -1
        self._inventories.clear()

    def _tile(self, material: int, thing: int) -> Array:
        """Return the picture of a cell, uint8 [unit, unit, 3], by column and row."""
        canvas = np.full((self._unit, self._unit, 3), OUTSIDE, np.uint8)
        if material:
            engine._draw(canvas, (0, 0), self._texture(MATERIALS[material - 1]))
        if thing:
            engine._draw_alpha(canvas, (0, 0), self._texture(OBJECT_PICTURES[thing - 1]))
        return canvas

    def _texture(self, name: str) -> Array:
        texture: Array = self._textures.get(name, (self._unit, self._unit))
        return texture

    def _inventory(self, scene: Scene) -> Array:
        """Return the picture of the inventory, uint8, by column and row, as the package draws it."""
        drawn = self._inventories.get(scene.inventory)
        if drawn is None:
            side = scene.materials.shape[0]
            view = engine.ItemView(self._textures, [side, -(-len(ITEMS) // side)])
            drawn = view(dict(zip(ITEMS, scene.inventory, strict=True)), (self._unit, self._unit))
            if len(self._inventories) < CACHED_INVENTORIES:
                self._inventories[scene.inventory] = drawn
        return drawn
