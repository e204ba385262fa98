"""What the player has seen of the world, and ways through it: the skill `find` of DSADF, table 11.

The table's `find` ends when the player stands on what it looks for, which stones, trees and ore forbid; here it ends
when the player stands beside it and faces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State
from guidebench.suites.crafter.game import CODES, MATERIALS

MOVES = ("move_left", "move_right", "move_up", "move_down")
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
CODE = {name: code for code, name in enumerate(MATERIALS, 1)}
WALKABLE = ("grass", "sand", "path")
PLAYER = tuple(code for name, code in CODES.items() if name.startswith("player"))
THINGS = {
    "cow": (CODES["cow"],),
    "zombie": (CODES["zombie"],),
    "skeleton": (CODES["skeleton"],),
    "plant": (CODES["plant-ripe"],),
}
DIG, BRIDGE = 3, 8
"""Cost of a way through rock (turn, mine, go) and over water or lava (turn, place a stone, mine it, go), in steps."""
ARRIVED, NO_WAY = 4, -1


class ExploredMap:
    """The codes of all cells that were in view in this episode, as they were when last seen; 0 is unknown."""

    def __init__(self, area: int) -> None:
        self.materials, self.things = np.zeros((2, area, area), np.uint8)

    def forget(self) -> None:
        self.materials[:] = self.things[:] = 0

    def look(self, game: Any) -> None:
        """Add what is in view. The player itself is left out."""
        materials, things = game.visible_cells()
        (x, y), (width, height) = game.player.pos.tolist(), materials.shape
        x_origin, y_origin, area = x - width // 2, y - height // 2, len(self.materials)
        x0, x1, y0, y1 = max(x_origin, 0), min(x_origin + width, area), max(y_origin, 0), min(y_origin + height, area)
        view = slice(x0 - x_origin, x1 - x_origin), slice(y0 - y_origin, y1 - y_origin)
        self.materials[x0:x1, y0:y1] = materials[view]
        self.things[x0:x1, y0:y1] = things[view]
        self.things[x, y] = 0

    def locate(self, noun: str) -> Array:
        """Return the cells in which a material or a creature was last seen, bool [area, area]; of plants, only ripe
        ones. UserError for another noun."""
        if noun in THINGS:
            return np.isin(self.things, THINGS[noun])
        if noun not in CODE:
            raise UserError(f"{noun!r} cannot be found: known are {', '.join((*CODE, *THINGS))}")
        return np.asarray((self.materials == CODE[noun]) & (self.things == 0))

    def state(self) -> State:
        return {"materials": self.materials.copy(), "things": self.things.copy()}

    def load_state(self, state: State) -> None:
        self.materials[:], self.things[:] = state["materials"], state["things"]


def beside(game: Any, noun: str) -> bool:
    """Return whether the player stands beside a material or creature, in one of the four directions."""
    x, y = game.player.pos.tolist()
    for dx, dy in DIRECTIONS:
        material, thing = game.world[x + dx, y + dy]
        if (type(thing).__name__.lower() if thing is not None else material) == noun:
            return True
    return False


def directions(explored: ExploredMap, game: Any, materials: Mapping[str, str]) -> str:
    """Return in a sentence where the nearest of each thing was last seen, in steps from the player; "" where none was.
    `materials`: name in the sentence -> noun of `ExploredMap.locate`.

    An example: `known places: tree 3 left and 2 up, crafting table 1 right.`
    """
    x, y = game.player.pos.tolist()
    places = []
    for name, noun in materials.items():
        cells = np.argwhere(explored.locate(noun))
        if len(cells):
            offsets = cells - (x, y)
            dx, dy = offsets[np.abs(offsets).sum(-1).argmin()].tolist()
            steps = [f"{abs(dx)} {'left' if dx < 0 else 'right'}"] if dx else []
            steps += [f"{abs(dy)} {'up' if dy < 0 else 'down'}"] if dy else []
            places.append(f"{name} {' and '.join(steps)}")
    return f"known places: {', '.join(places)}." if places else ""


def find(explored: ExploredMap, game: Any, noun: str, dig: bool = False) -> str | None:
    """Return Crafter's next action on a shortest path, through explored cells, to a cell that faces `noun`: a move or,
    with `dig`, also mining or building. If no such cell is known, the path leads to the nearest cell at the border of
    the explored part. None if the player faces the noun already, or if there is no path."""
    target = explored.locate(noun)
    if target.any():
        step = way(explored, game, facing(target), dig)
        if step is None or step != "":
            return step
    return way(explored, game, frontier(explored, game, dig), dig) or None


def facing(target: Array) -> Array:
    """Return in which states the player would face one of the `target` cells, bool [area, area, direction]."""
    goals = np.zeros((*target.shape, 4), bool)
    goals[1:, :, 0], goals[:-1, :, 1] = target[:-1], target[1:]
    goals[:, 1:, 2], goals[:, :-1, 3] = target[:, :-1], target[:, 1:]
    return goals


def near(target: Array) -> Array:
    """Return the cells at most one row and column from a `target` cell, bool [area, area]."""
    padded = np.pad(target, 1)
    width, height = target.shape
    shifted = (padded[x : x + width, y : y + height] for x in range(3) for y in range(3))
    return np.asarray(np.logical_or.reduce(list(shifted)))


def frontier(explored: ExploredMap, game: Any, dig: bool) -> Array:
    """Return the states in cells that can be entered and have an unknown neighbour, bool [area, area, direction]."""
    unknown = facing(explored.materials == 0).any(-1)
    cost, _, _ = costs(explored, game, dig)
    return np.repeat((unknown & (cost > 0))[..., None], 4, axis=-1)


def costs(explored: ExploredMap, game: Any, dig: bool) -> tuple[Array, Array, Array]:
    """Return per cell [area, area]: the steps to enter it (0 if impossible); whether a move towards it only turns the
    player; and whether only a player that already faces it may enter, because a turn towards it would be deadly."""
    kinds, free = explored.materials, explored.things == 0
    inventory = game.player.inventory
    cost = np.where(np.isin(kinds, [CODE[name] for name in WALKABLE]) & free, 1, 0)
    lava, water = kinds == CODE["lava"], kinds == CODE["water"]
    turns = (kinds > 0) & (cost == 0) & ~(lava & free)
    if dig and inventory["wood_pickaxe"]:
        needed = {"stone": "wood_pickaxe", "coal": "wood_pickaxe", "iron": "stone_pickaxe", "diamond": "iron_pickaxe"}
        rock = [CODE[name] for name, tool in needed.items() if inventory[tool]]
        cost[np.isin(kinds, rock) & free] = DIG
        if inventory["stone"]:
            cost[(lava | water) & free] = BRIDGE
    return cost, turns, lava


def way(explored: ExploredMap, game: Any, goals: Array, dig: bool = False) -> str | None:
    """Return Crafter's first action on a cheapest way to a state of `goals`, bool [area, area, direction]; None if the
    player is there, "" if there is no way."""
    cost, turns, lava = costs(explored, game, dig)
    x, y = game.player.pos.tolist()
    facing_now = DIRECTIONS.index(tuple(int(part) for part in game.player.facing))
    step = _search(cost, turns, lava, goals, x, y, facing_now)
    if step == ARRIVED:
        return None
    if step == NO_WAY:
        return ""
    column, row = x + DIRECTIONS[step][0], y + DIRECTIONS[step][1]
    if step != facing_now or not 0 <= column < len(cost) or cost[column, row] <= 1:
        return MOVES[step]
    return "do" if cost[column, row] == DIG else "place_stone"


@njit(cache=True)
def _search(cost: Array, turns: Array, lava: Array, goals: Array, x: int, y: int, d: int) -> int:
    """Return the first direction of a cheapest way from cell (x, y) and direction d to a state of `goals`; 4 if it is
    such a state itself, -1 if there is no way. A label-correcting search over (column, row, direction)."""
    if goals[x, y, d]:
        return 4
    area = cost.shape[0]
    count = area * area * 4
    far = 1 << 30
    distance = np.full(count, far, np.int64)
    first = np.full(count, -1, np.int8)
    waiting = np.zeros(count, np.bool_)
    queue = np.zeros(count + 1, np.int64)
    start = (x * area + y) * 4 + d
    distance[start] = 0
    queue[0] = start
    head, tail = 0, 1
    best, direction = far, -1
    while head != tail:
        node = queue[head]
        head = (head + 1) % (count + 1)
        waiting[node] = False
        column, row, faced = node // 4 // area, node // 4 % area, node % 4
        for step in range(4):
            dx = (-1, 1, 0, 0)[step]
            dy = (0, 0, -1, 1)[step]
            to_x, to_y = column + dx, row + dy
            if to_x < 0 or to_y < 0 or to_x >= area or to_y >= area:
                continue
            for turning in range(2):
                if turning:
                    if not turns[to_x, to_y]:
                        continue
                    reached, length = (column * area + row) * 4 + step, distance[node] + 1
                else:
                    if cost[to_x, to_y] == 0 or (lava[to_x, to_y] and step != faced):
                        continue
                    reached, length = (to_x * area + to_y) * 4 + step, distance[node] + cost[to_x, to_y]
                if length >= distance[reached] or length >= best:
                    continue
                distance[reached] = length
                first[reached] = step if node == start else first[node]
                if goals[reached // 4 // area, reached // 4 % area, reached % 4]:
                    best, direction = length, first[reached]
                elif not waiting[reached]:
                    waiting[reached] = True
                    queue[tail] = reached
                    tail = (tail + 1) % (count + 1)
    return direction
