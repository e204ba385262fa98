"""The scripted judge `sprite`: recognises MiniGrid's standard sprites in the pixels of a clip, and uses nothing else.

It is hand-written for this task. A tile counts only if every pixel is as MiniGrid draws it, so a perturbed sprite is
not recognised. That shows that the judge uses only pixels, and says nothing about any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from minigrid.core.constants import COLOR_NAMES
from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Goal, Key, Wall, WorldObj

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

OTHER, KEY, SHUT, OPEN, REACHED = range(5)
"""Content of a tile: nothing relevant, a key, a shut door, an open door (with or without the agent), the agent on a
goal."""
STANDARD = "yellow"
"""Colour that DoorKey gives its key and door; other colours are rendered when an unknown tile is first found."""


class Sprite(NamedTuple):
    """A tile's sprite: an object or none, an agent facing a direction or none, and the tile's content."""

    kind: int
    thing: WorldObj | None
    direction: int | None = None


class Tiles:
    """The content of each tile of `pixels` x `pixels`, by its bytes."""

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels
        self._looks: dict[bytes, int] = {}
        self._undrawn = [color for color in COLOR_NAMES if color != STANDARD]
        self._learn([Sprite(OTHER, None), Sprite(OTHER, Wall()), Sprite(OTHER, Goal())])
        self._learn(Sprite(OTHER, None, direction) for direction in range(4))
        self._learn(Sprite(REACHED, Goal(), direction) for direction in range(4))
        self._learn(_coloured(STANDARD))

    def __getitem__(self, tile: bytes) -> int:
        while tile not in self._looks and self._undrawn:
            self._learn(_coloured(self._undrawn.pop()))
        return self._looks.get(tile, OTHER)

    def _learn(self, sprites: Iterable[Sprite]) -> None:
        for kind, thing, direction in sprites:
            tile = Grid.render_tile(thing, direction, tile_size=self.pixels)
            self._looks[tile.astype(np.uint8).tobytes()] = kind


class SpriteJudge:
    """A Judge: P(yes) is 1 for a clip in which a key is taken, a door opened or the goal reached, else 0.

    A key is taken if one is visible in a frame and none in a later one. A door is opened if a cell shows a shut door
    and later an open one. The goal is reached if the agent stands on it. Frames show the state after a transition, so a
    key taken or a door opened by the first transition of a clip is not visible in it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._tiles: Tiles | None = None

    def __call__(self, clips: Sequence[Array]) -> list[float]:
        return [float(_shows_progress(self._read(np.asarray(clip)))) for clip in clips]

    def _read(self, frames: Array) -> Array:
        """Return the content of each tile, uint8 [L, size, size], from frames uint8 [L, height, width, 3] of size x
        size tiles."""
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
            raise UserError(f"frames {frames.dtype} {frames.shape} given, uint8 [L, height, width, 3] expected")
        length, height, width, _ = frames.shape
        n, pixels = self._size, height // self._size
        if not height == width == n * pixels > 0:
            raise UserError(f"a frame of {height}x{width} pixels given; expected a square of {n}x{n} tiles")
        if self._tiles is None or self._tiles.pixels != pixels:
            self._tiles = Tiles(pixels)
        tiles = self._tiles
        changed = np.ones((length, n), bool)
        if length > 1:
            changed[1:] = (frames[1:] != frames[:-1]).reshape(length - 1, n, -1).any(-1)
        kinds = np.zeros((length, n, n), np.uint8)
        for index in range(length):
            kinds[index] = kinds[index - 1]
            for row in np.flatnonzero(changed[index]):
                strip = frames[index, row * pixels : (row + 1) * pixels].reshape(pixels, n, 3 * pixels)
                kinds[index, row] = [tiles[tile.tobytes()] for tile in strip.swapaxes(0, 1)]
        return kinds


def _coloured(color: str) -> Iterator[Sprite]:
    yield Sprite(KEY, Key(color))
    yield Sprite(SHUT, Door(color, is_locked=True))
    yield Sprite(SHUT, Door(color))
    for direction in (None, 0, 1, 2, 3):
        yield Sprite(OPEN, Door(color, is_open=True), direction)


def _shows_progress(kinds: Array) -> bool:
    """Return whether tiles [L, rows, columns] show one of the three events."""
    key_visible = (kinds == KEY).any(axis=(1, 2))
    key_taken = key_visible.any() and not key_visible[key_visible.argmax() :].all()
    door_opened = (np.logical_or.accumulate(kinds == SHUT, axis=0) & (kinds == OPEN)).any()
    return bool(key_taken or door_opened or (kinds == REACHED).any())
