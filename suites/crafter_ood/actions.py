"""Verb-noun actions (DSADF, table 11) over Crafter's 17: which there are, and which are possible in a state.

Crafter's `do` acts on whatever the player faces. Here an action names the verb and the noun, and does nothing unless it
is possible: a wrong noun is no action.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

Kind = Literal["pairs", "find", "product"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ALONE: Mapping[str, str] = {
    "do nothing": "noop",
    "move left": "move_left",
    "move right": "move_right",
    "move up": "move_up",
    "move down": "move_down",
    "sleep": "sleep",
}
"""Actions without a noun -> Crafter's. Table 11 has no moves, which its `find` consists of."""
TOOLS = ("wood pickaxe", "stone pickaxe", "iron pickaxe", "wood sword", "stone sword", "iron sword")
PAIRS: Mapping[str, tuple[str, ...]] = {
    "eat": ("plant", "cow"),
    "attack": ("zombie", "skeleton", "cow"),
    "chop": ("tree", "grass"),
    "mine": ("stone", "coal", "iron", "diamond"),
    "drink": ("water",),
    "place": ("stone", "crafting table", "furnace", "plant"),
    "make": TOOLS,
}
"""Verb -> its nouns (DSADF, table 11)."""
STATIONS = ("crafting table", "furnace")
"""What the player places and must stand near to make tools."""
FIND = ("tree", "stone", "coal", "iron", "diamond", "water", "grass", "cow", *STATIONS)
"""Nouns of `find`: table 11's five, what its verbs eat and drink, and what tools are made at."""
NOUNS = (
    "zombie", "skeleton", "cow", "tree", "stone", "coal", "iron", "diamond", "water", "grass", *STATIONS, "plant",
    *TOOLS,
)  # fmt: skip
"""ELLM's nouns."""


class Action(NamedTuple):
    verb: str
    noun: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.noun}".rstrip()


@cache
def actions(kind: Kind) -> tuple[Action, ...]:
    """Return the actions: `pairs`, the 28 that can have an effect; `find`, these and one to find each of `FIND`;
    `product`, ELLM's 139, every verb with every noun."""
    alone = tuple(Action(verb) for verb in ALONE)
    if kind == "product":
        order = ("mine", "eat", "attack", "chop", "drink", "place", "make")
        return (*alone, *(Action(verb, noun) for verb in order for noun in NOUNS))
    pairs = (*alone, *(Action(verb, noun) for verb, nouns in PAIRS.items() for noun in nouns))
    return (*pairs, *(Action("find", noun) for noun in FIND)) if kind == "find" else pairs


def primitive(action: Action, game: Any) -> str | None:
    """Return Crafter's action for one that is not `find`, or None where it is impossible in this state.

    Crafter itself counts nothing as impossible; here an action is possible if its noun is what the player faces or has
    the materials and the place for. A player that cannot tire any less cannot sleep. A furnace is possible near a
    crafting table alone, since whatever is made at it needs both (choice; the package places it anywhere).
    """
    verb, noun = action
    if verb == "sleep":
        return "sleep" if game.player.inventory["energy"] < 9 else None
    if verb in ALONE:
        return ALONE[verb]
    if noun not in PAIRS.get(verb, ()):
        return None
    name = material(noun).replace(" ", "_")
    if verb == "make":
        return f"make_{name}" if makes(game, name) else None
    if verb == "place":
        return f"place_{name}" if places(game, name) else None
    return "do" if _faces(verb, noun, game) else None


def material(noun: str) -> str:
    """Return the package's name of a noun: `table` for a crafting table, and all others as they are."""
    return noun.removeprefix("crafting ")


def makes(game: Any, tool: str) -> bool:
    """Return whether a tool can be made here and now."""
    from crafter import constants

    recipe = constants.make[tool]
    return near(game, *recipe["nearby"]) and _has(game, recipe["uses"])


def near(game: Any, *blocks: str) -> bool:
    """Return whether the package says that each of these materials is at most one row and column from the player."""
    materials, _ = game.world.nearby(game.player.pos, 1)
    return all(block in materials for block in blocks)


def places(game: Any, block: str) -> bool:
    """Return whether something can be placed in front of the player."""
    from crafter import constants

    recipe = constants.place[block]
    ground, thing = facing(game)
    free = thing is None and ground in recipe["where"]
    return free and _has(game, recipe["uses"]) and (block != "furnace" or _beside_table(game))


def _beside_table(game: Any) -> bool:
    """Return whether a table is at most one row and column from the player, at the edge of the world too."""
    x, y = game.player.pos.tolist()
    return any(game.world[x + dx, y + dy][0] == "table" for dx in (-1, 0, 1) for dy in (-1, 0, 1))


def facing(game: Any) -> tuple[str | None, Any]:
    """Return the material and the object in front of the player, each None if there is none."""
    x, y = game.player.pos.tolist()
    dx, dy = game.player.facing
    cell: tuple[str | None, Any] = game.world[x + dx, y + dy]
    return cell


def _faces(verb: str, noun: str, game: Any) -> bool:
    from crafter import constants

    ground, thing = facing(game)
    if thing is not None:
        name = type(thing).__name__.lower()
        return bool(name == noun and (verb == "attack" or name == "cow" or (verb == "eat" and thing.ripe)))
    return ground == noun and _has(game, constants.collect[noun]["require"])


def _has(game: Any, needed: Mapping[str, int]) -> bool:
    return all(game.player.inventory[name] >= count for name, count in needed.items())
