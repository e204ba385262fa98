"""What the player did in a step, as a verb and a noun (ELLM, Du et al. 2023: its captions of transitions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PHRASES: Mapping[str, str] = {
    "collect_coal": "mine coal", "collect_diamond": "mine diamond", "collect_drink": "drink water",
    "collect_iron": "mine iron", "collect_sapling": "chop grass", "collect_stone": "mine stone",
    "collect_wood": "chop tree", "defeat_skeleton": "attack skeleton", "defeat_zombie": "attack zombie",
    "eat_cow": "eat cow", "eat_plant": "eat plant", "make_iron_pickaxe": "make iron pickaxe",
    "make_iron_sword": "make iron sword", "make_stone_pickaxe": "make stone pickaxe",
    "make_stone_sword": "make stone sword", "make_wood_pickaxe": "make wood pickaxe",
    "make_wood_sword": "make wood sword", "place_furnace": "place furnace", "place_plant": "place plant",
    "place_stone": "place stone", "place_table": "place crafting table", "wake_up": "wake up",
}  # fmt: skip
"""Achievement -> how a caption says that it was achieved. All but `wake up` are actions of ELLM's."""
ATTACKED = ("Zombie", "Skeleton", "Cow")
"""Classes of the package's objects that `do` harms."""
DEEDS = tuple(
    dict.fromkeys(
        (*sorted({*PHRASES.values()} - {"wake up"}), *(f"attack {name.lower()}" for name in ATTACKED), "sleep")
    )
)
"""Captions of the player's deeds: no moves, and no events that happen without the player."""
MEASURES: Mapping[str, str] = {deed: f"1 if `{deed}` needs no other deed before it now, else 0" for deed in DEEDS}
"""The measures of tasks on Crafter (`guidebench.suites.crafter.measures.within_reach`)."""


class Before(NamedTuple):
    """The game just before a step, as far as the step's caption depends on it."""

    achievements: dict[str, int]
    place: tuple[int, int]
    sleeps: bool
    """Whether the player falls asleep or sleeps on."""
    attacks: str
    """The creature that it hits, such as `zombie`, or ""."""


def before(player: Any, action: str) -> Before:
    """Return what matters of the package's player, who is about to do one of the package's actions."""
    tired = player.inventory["energy"] < 9
    attacked = ""
    if action == "do" and not (player.sleeping and tired):
        (x, y), (dx, dy) = player.pos.tolist(), player.facing
        thing = type(player.world[x + dx, y + dy][1]).__name__
        attacked = thing.lower() if thing in ATTACKED else ""
    x, y = player.pos.tolist()
    return Before(dict(player.achievements), (x, y), tired and (player.sleeping or action == "sleep"), attacked)


def caption(was: Before, player: Any, action: str) -> str:
    """Return in words what the player did in the step from `was` to now: an achievement, else an attack (`attack cow`),
    sleep or a move; "" if the step had no effect."""
    if player.achievements != was.achievements:
        achieved = [name for name, count in player.achievements.items() if count > was.achievements[name]]
        # a player that wakes up does its action in the same step
        return PHRASES[min(achieved, key=lambda name: name == "wake_up")]
    if was.attacks:
        return f"attack {was.attacks}"
    if was.sleeps:
        return "sleep"
    if action.startswith("move_") and tuple(player.pos.tolist()) != was.place:
        return action.replace("_", " ")
    return ""
