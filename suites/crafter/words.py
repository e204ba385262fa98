"""What the player sees, carries and feels, as sentences in the form of ELLM (Du et al. 2023, released code)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.crafter.game import ITEMS, MATERIALS, OBJECT_PICTURES, Game

NAMES = {"table": "crafting table", "plant-ripe": "plant", "sapling": "plant"}
"""Name in the package -> name in sentences, where it differs."""
UNMENTIONED = ("sand",)
"""Materials that are not mentioned."""
UNTARGETED = ("path", "sand", "lava")
"""Materials that are not named as the player's target."""
FEELINGS = {"health": "hurt", "food": "hungry", "drink": "thirsty", "energy": "sleepy"}
FULL = 9
"""Level below which a feeling is mentioned."""
LONGEST = 384
"""Bytes that hold the longest text: every material, creature, item and feeling named at once."""


def plain(name: str) -> str:
    """Return the name of a material, object or item in sentences."""
    return NAMES.get(name, name).replace("_", " ")


SIGHTS = {code: plain(name) for code, name in enumerate(MATERIALS, 1) if name not in UNMENTIONED}
GROUNDS = {code: plain(name) for code, name in enumerate(MATERIALS, 1)}
OBJECTS = {code: plain(name.partition("-")[0]) for code, name in enumerate(OBJECT_PICTURES, 1)}
THINGS = {code: plain(name) for code, name in enumerate(OBJECT_PICTURES, 1) if not name.startswith(("player", "arrow"))}


def text(game: Game) -> str:
    """Return sentences in lower case: what is in view, sorted by name; what the player faces; what it has; how it
    feels. Sand, arrows and the player itself are not mentioned (ELLM's code)."""
    materials, things = game.visible_cells()
    empty = things == 0
    names = {SIGHTS[code] for code in set(materials[empty].tobytes()) if code in SIGHTS}
    names |= {THINGS[code] for code in set(things.tobytes()) if code in THINGS}
    told = [f"you see {listed(sorted(names))}."] if names else []
    if target := facing(game):
        told.append(f"you are targeting {target}.")
    inventory = game.player.inventory
    if carried := [plain(name) for name in ITEMS[4:] if inventory[name] > 0]:
        told.append(f"you have in your inventory {listed(carried)}.")
    if felt := [feeling for name, feeling in FEELINGS.items() if inventory[name] < FULL]:
        told.append(f"you feel {listed(felt)}.")
    return " ".join(told)


def facing(game: Game) -> str:
    """Return the name of the object or material in front of the player, or "" for one that is not named."""
    player = game.player
    material, thing = game.world[player.pos[0] + player.facing[0], player.pos[1] + player.facing[1]]
    if thing is not None:
        return plain(thing.texture.partition("-")[0])
    return "" if material is None or material in UNTARGETED else plain(material)


def nearby(local: Array, distance: int) -> list[frozenset[str]]:
    """Return the names of the materials and objects within a Manhattan distance of the player, for each of the views
    `local` [n, columns, rows, 2] of observations; the player itself is left out, what is outside the world too."""
    columns, rows = np.indices(local.shape[1:3])
    apart = abs(columns - local.shape[1] // 2) + abs(rows - local.shape[2] // 2)
    cells = local[:, (apart > 0) & (apart <= distance)]
    return [
        frozenset(GROUNDS[code] for code in set(materials.tobytes()) - {0})
        | frozenset(OBJECTS[code] for code in set(things.tobytes()) - {0})
        for materials, things in zip(cells[..., 0], cells[..., 1], strict=True)
    ]


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence.

    >>> listed(["cow"]), listed(["cow", "tree"]), listed(["cow", "grass", "tree"])
    ('cow', 'cow and tree', 'cow, grass, and tree')
    """
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"
