"""A scripted player of the tasks, which eats, drinks, sleeps and defends itself.

It knows what has been seen, its inventory and the recipes; it works on the first sub-goal that is not met, and makes
whatever that lacks. Each action follows from the task's state alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from crafter import constants

from guidebench.suites.crafter.game import CODES
from guidebench.suites.crafter_ood import navigation
from guidebench.suites.crafter_ood.actions import facing, makes, places
from guidebench.suites.crafter_ood.navigation import CODE, DIRECTIONS, MOVES, ExploredMap

if TYPE_CHECKING:
    from guidebench.suites.crafter_ood.quests import Subgoal

SOURCE = {"wood": "tree", "stone": "stone", "coal": "coal", "iron": "iron", "diamond": "diamond"}
"""Item -> what it is collected from."""
LOW = 4
"""Level of food or drink at which the player sees to it."""
TIRED = 2
"""Level of energy at which the player goes to sleep."""
HURT = 3
"""Level of health at which the player rests."""
ENEMIES = (CODES["zombie"], CODES["skeleton"])
DANGERS = (*ENEMIES, *(code for name, code in CODES.items() if name.startswith("arrow")))


class Expert:
    """Plays one game, of which `seen` is what has been seen."""

    def __init__(self, game: Any, seen: ExploredMap) -> None:
        self._game, self._explored = game, seen

    def act(self, subgoal: Subgoal) -> str:
        """Return Crafter's next action towards a sub-goal."""
        if self._game.player.sleeping:
            return "noop"
        return self._defend() or self._survive() or self._towards(subgoal) or "noop"

    # Survival

    @property
    def _inventory(self) -> Mapping[str, int]:
        inventory: Mapping[str, int] = self._game.player.inventory
        return inventory

    def _defend(self) -> str | None:
        """Attack an enemy in a neighbouring cell."""
        player = self._game.player
        x, y = player.pos.tolist()
        for (dx, dy), move in zip(DIRECTIONS, MOVES, strict=True):
            _, thing = self._game.world[x + dx, y + dy]
            if thing is not None and CODES.get(thing.texture) in ENEMIES:
                return "do" if tuple(player.facing) == (dx, dy) else move
        return None

    def _survive(self) -> str | None:
        """See to thirst, hunger, tiredness and wounds; at water, drink until full. Sleep and rest out of danger."""
        inventory, (material, thing) = self._inventory, facing(self._game)
        drinking = material == "water" and thing is None and inventory["drink"] < 9
        if (drinking or inventory["drink"] <= LOW) and (step := self._get("water")):
            return step
        if inventory["food"] <= LOW and (step := self._get("cow")):
            return step
        _, things = self._game.visible_cells()
        if np.isin(things, DANGERS).any():
            return "sleep" if inventory["energy"] == 0 else None
        if inventory["energy"] <= TIRED:
            return "sleep"
        return "noop" if inventory["health"] <= HURT else None

    # Sub-goals

    def _towards(self, subgoal: Subgoal) -> str | None:
        if subgoal.find:
            return navigation.find(self._explored, self._game, subgoal.find, dig=True) or self._get(subgoal.find)
        verb, _, noun = subgoal.achievement.partition("_")
        if verb == "collect":
            return self._get(SOURCE[noun])
        if verb == "make":
            return self._make(noun)
        if verb == "place":
            return self._table() if noun == "table" else self._furnace()
        return self._get(noun)

    def _get(self, noun: str) -> str | None:
        """Collect from a material, or attack a creature; first make the tool that it takes."""
        for tool in constants.collect.get(noun, {}).get("require", {}):
            if not self._inventory[tool]:
                return self._make(tool)
        material, thing = facing(self._game)
        if (type(thing).__name__.lower() if thing is not None else material) == noun:
            return "do"
        return navigation.find(self._explored, self._game, noun, dig=True)

    def _make(self, item: str) -> str | None:
        if makes(self._game, item):
            return f"make_{item}"
        recipe = constants.make[item]
        if step := self._lacking(recipe["uses"]):
            return step
        there = navigation.near(self._explored.locate("table"))
        if not there.any():
            return self._table()
        if "furnace" in recipe["nearby"]:
            there &= navigation.near(self._explored.locate("furnace"))
            if not there.any():
                return self._furnace()
        step = navigation.way(self._explored, self._game, _anyhow(there), dig=True)
        return step or self._table()

    def _lacking(self, uses: Mapping[str, int]) -> str | None:
        """Get the first material of which there is too little."""
        for name, count in uses.items():
            if self._inventory[name] < count:
                return self._get(SOURCE[name])
        return None

    def _table(self) -> str | None:
        return self._lacking(constants.place["table"]["uses"]) or self._place("table", None)

    def _furnace(self) -> str | None:
        """Place a furnace where a table is near, so that both can be used."""
        if step := self._lacking(constants.place["furnace"]["uses"]):
            return step
        tables = self._explored.locate("table")
        return self._place("furnace", navigation.near(tables)) if tables.any() else self._table()

    def _place(self, item: str, there: Any) -> str | None:
        """Place something in front of the player, who stands in one of the cells `there` or anywhere."""
        x, y = self._game.player.pos.tolist()
        if places(self._game, item) and (there is None or there[x, y]):
            return f"place_{item}"
        ground = np.isin(self._explored.materials, [CODE[name] for name in constants.place[item]["where"]])
        goals = navigation.facing(ground & (self._explored.things == 0))
        if there is not None:
            goals &= _anyhow(there)
        return navigation.way(self._explored, self._game, goals, dig=True) or None


def _anyhow(cells: Any) -> Any:
    """Return the states in these cells, facing anywhere: bool [area, area, direction]."""
    return np.repeat(cells[..., None], 4, axis=-1)
