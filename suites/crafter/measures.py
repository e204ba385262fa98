"""What the player could achieve next by the game's own rules: privileged, for oracles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from crafter import constants

from guidebench.harness.interfaces import Array
from guidebench.suites.crafter.captions import DEEDS, PHRASES
from guidebench.suites.crafter.game import CODES, MATERIALS, Game

ACHIEVEMENT = {phrase: name for name, phrase in PHRASES.items()}
"""Caption -> the achievement that it tells."""
CODE = {name: code for code, name in enumerate(MATERIALS, 1)}
RIPE = "plant-ripe"


def within_reach(game: Game) -> Array:
    """Return which of `DEEDS` the player could do without any other deed before it, moves aside: what it consists of is
    in view, and tools and materials for it are held. float32 [deeds], 1 or 0; the player's own amounts count, which
    sentences do not tell."""
    materials, things = game.visible_cells()
    sees = {name for name, code in CODE.items() if (materials == code).any()}
    sees |= {name for name, code in CODES.items() if (things == code).any()}
    return np.array([_reached(deed, sees, game.player.inventory) for deed in DEEDS], np.float32)


def _reached(deed: str, sees: set[str], held: Mapping[str, int]) -> bool:
    verb, _, noun = deed.partition(" ")
    kind, _, item = ACHIEVEMENT.get(deed, "").partition("_")
    recipe: Mapping[str, Any]
    if verb == "sleep":
        return held["energy"] < 9
    if verb in ("attack", "eat"):
        return (RIPE if noun == "plant" else noun) in sees
    if kind == "collect":
        name = {"drink": "water", "wood": "tree", "sapling": "grass"}.get(item, item)
        recipe = constants.collect[name]
        return name in sees and _has(held, recipe["require"])
    if kind == "make":
        recipe = constants.make[item]
        return set(recipe["nearby"]) <= sees and _has(held, recipe["uses"])
    recipe = constants.place[item]
    return bool(set(recipe["where"]) & sees) and _has(held, recipe["uses"])


def _has(held: Mapping[str, int], needed: Mapping[str, int]) -> bool:
    return all(held[name] >= count for name, count in needed.items())
