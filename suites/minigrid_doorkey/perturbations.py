"""Frames with misleading or meaningless sprites (VLM-RB, §4.2 and app. F.3); the world is not affected."""

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
"""Object -> the MiniGrid object whose sprite is drawn instead, in the same colour if it has one.

The key looks deadly, and doors and the goal look like objects to carry. In MiniGrid an opened box disappears, so an
open door is drawn as coloured floor. A locked door cannot be told from a shut one.
"""
DOORS = ("open door", "shut door", "locked door")  # in the order of MiniGrid's states
TEXTURED: Mapping[str, tuple[str, ...]] = {
    "wall": ("wall",),
    "key": ("key",),
    "goal": ("goal",),
    "door": DOORS,
    "agent": ("agent right", "agent down", "agent left", "agent up"),
}
"""Object type -> its variants with their own pattern, in the colours of that type: a door by its state, the agent by
its direction. Floor is unchanged."""
INKS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
"""Colours of the patterns: each pattern uses one of these and its complement, so that every channel of every patch is
at an end of its range."""
PATCHES = 8
"""Patches along a pattern's side."""


def look(kind: int, state: int) -> str:
    """Return the name of a cell's content, as used in `SWAP` and `TEXTURED`."""
    name: str = IDX_TO_OBJECT[kind]
    return DOORS[state] if name == "door" else name


class SpriteSwapDrawer(DoorKeyDrawer):
    """Draws key, door and goal with the sprites of `SWAP`; walls and the agent are unchanged."""

    def _tile(self, kind: int, color: int, state: int, direction: int | None) -> Array:
        swapped = SWAP.get(look(kind, state))
        if swapped is not None:
            kind, state = OBJECT_TO_IDX[swapped], 0
        return super()._tile(kind, color, state, direction)


class TextureDrawer(DoorKeyDrawer):
    """Draws every object as a square of two-coloured noise determined by `seed`, the same in every cell and frame.

    The agent's square covers the middle of its tile, so that the object under it remains visible around it.
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
    """Return a pattern [n, n, 3] scaled to a tile, uint8 [pixels, pixels, 3]."""
    patch = np.arange(pixels) * len(pattern) // pixels
    scaled: Array = pattern[patch][:, patch]
    return scaled
