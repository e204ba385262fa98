"""Pictures with misleading or meaningless sprites; the world is not affected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.crafter.drawing import CrafterDrawer
from guidebench.suites.crafter.game import MATERIALS, OBJECT_PICTURES

SWAP: Mapping[str, str] = {
    "cow": "zombie",
    "zombie": "cow",
    "diamond": "coal",
    "coal": "diamond",
    "iron": "stone",
    "tree": "lava",
    "lava": "water",
    "water": "sand",
    "table": "furnace",
    "furnace": "table",
}
"""Material or object -> the package's picture that is drawn instead: food looks like an enemy and an enemy like food,
what to collect looks common or deadly, and what kills looks like water to drink."""
FLOOR = ("grass", "sand", "path")
"""Materials that keep their picture under `texture`: one walks on them."""
INKS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
"""Colours of the patterns: each pattern uses one of these and its complement."""
PATCHES = 8
"""Patches along a pattern's side."""


class SpriteSwapDrawer(CrafterDrawer):
    """Draws what `SWAP` names with another picture of the package; the player and the inventory are unchanged."""

    def _texture(self, name: str) -> Array:
        return super()._texture(SWAP.get(name, name))


class TextureDrawer(CrafterDrawer):
    """Draws every object and every material but the floor as a square of two-coloured noise determined by `seed`, the
    same in every cell and picture."""

    def __init__(self, size: int, seed: int) -> None:
        super().__init__(size)
        random = np.random.default_rng(seed)
        self._patterns = {}
        for name in (*MATERIALS, *OBJECT_PICTURES):
            ink = INKS[random.integers(len(INKS))]
            self._patterns[name] = np.where(random.integers(0, 2, (PATCHES, PATCHES, 1)), ink, 255 - ink)

    def _texture(self, name: str) -> Array:
        if name in FLOOR:
            return super()._texture(name)
        patch = np.arange(self._unit) * PATCHES // self._unit
        scaled: Array = self._patterns[name][patch][:, patch].astype(np.uint8)
        return scaled
