"""Frames whose sprites mislead or mean nothing (VLM-RB, §4.2 and app. F.3); the world they show stays as it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from minigrid.core.constants import IDX_TO_OBJECT, OBJECT_TO_IDX

from guidebench.harness.interfaces import Array
from guidebench.suites.minigrid_doorkey.drawing import DoorKeyDrawer

SWAP: Mapping[str, str] = {
    "key": "lava",
    "locked door": "box",
    "shut door": "box",
    "open door": "floor",
    "goal": "ball",
}
"""What is shown -> the object of MiniGrid whose sprite is drawn instead, in the same colour where it has one.

What is to be fetched looks deadly, what is to be opened looks like something to carry, and so does where to go. In
MiniGrid an opened box is gone, so an open door is coloured floor. That a door is locked cannot be seen.
"""
DOORS = ("open door", "shut door", "locked door")  # in the order of MiniGrid's states
TEXTURED: Mapping[str, tuple[str, ...]] = {
    "wall": ("wall",),
    "key": ("key",),
    "goal": ("goal",),
    "door": DOORS,
    "agent": ("agent right", "agent down", "agent left", "agent up"),
}
"""Type of object -> what has a pattern of its own in the colours of that type: a door by its state, the agent by its
direction. Floor is no object and stays."""
INKS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
"""A pattern is of one of these and its complement, so that every channel of every patch is at an end of its range."""
PATCHES = 8
"""Patches along a pattern's side."""


def look(kind: int, state: int) -> str:
    """What a cell of these codes shows, in the words of `SWAP` and `TEXTURED`."""
    name: str = IDX_TO_OBJECT[kind]
    return DOORS[state] if name == "door" else name


class SpriteSwapDrawer(DoorKeyDrawer):
    """Key, door and goal by the sprites of `SWAP`; walls and the agent as ever."""

    def _tile(self, kind: int, color: int, state: int, direction: int | None) -> Array:
        swapped = SWAP.get(look(kind, state))
        if swapped is not None:
            kind, state = OBJECT_TO_IDX[swapped], 0
        return super()._tile(kind, color, state, direction)


class TextureDrawer(DoorKeyDrawer):
    """Every object as a square of two-coloured noise that follows from `seed` alone, the same wherever and whenever.

    The agent's covers the middle of its tile, so that what it stands on is seen around it.
    """

    def __init__(self, size: int, tile_size: int, seed: int) -> None:
        super().__init__(size, tile_size)
        random = np.random.default_rng(seed)
        inks = itertools.cycle(random.permutation(INKS))  # walls and the agent share theirs: five types, four pairs
        self._patterns: dict[str, Array] = {}
        for ink, looks in zip(inks, TEXTURED.values(), strict=False):
            for name in looks:
                noise = random.integers(0, 2, (PATCHES, PATCHES, 1))
                self._patterns[name] = np.where(noise, ink, 255 - ink)

    def _tile(self, kind: int, color: int, state: int, direction: int | None) -> Array:
        name, pixels = look(kind, state), self._tile_size
        textured = name in self._patterns
        tile = _scaled(self._patterns[name], pixels) if textured else super()._tile(kind, color, state, None)
        if direction is not None:
            agent, margin = self._patterns[TEXTURED["agent"][direction]], max(1, pixels // 6)
            tile[margin:-margin, margin:-margin] = _scaled(agent, pixels - 2 * margin)
        return tile


def _scaled(pattern: Array, pixels: int) -> Array:
    """A pattern [n, n, 3] as a tile of its own, uint8 [pixels, pixels, 3]."""
    patch = np.arange(pixels) * len(pattern) // pixels
    scaled: Array = pattern[patch][:, patch]
    return scaled
