"""The package's generator of worlds, equal to it in every bit: noise of all cells by compiled loops, then its draws.

The package computes each cell by itself, from up to eight values of noise and up to three random numbers. The noise of
a cell depends on no random number, so it is computed for whole maps at once; the random numbers are drawn ahead, and
the stream is then put where the package would leave it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from crafter import constants, objects
from numba import njit
from opensimplex.internals import _init, _noise3

from guidebench.harness.interfaces import Array

CODES = {name: np.uint8(code) for code, name in enumerate(constants.materials, 1)}
_GRASS, _PATH, _COAL, _IRON, _DIAMOND, _STONE, _TREE = map(
    CODES.__getitem__, ("grass", "path", "coal", "iron", "diamond", "stone", "tree")
)
MOST_DRAWS = 3
"""Most random numbers that a material, or the creature on it, takes."""
LAVA, ORE, GRASSLAND, SETTLED = 3, 2, 1, 0
"""How the material of a cell is decided: it may be ore, else lava; it may be ore, else stone; it may be a tree; or it
is settled by noise alone."""
_CREATURES = (objects.Cow, objects.Zombie, objects.Skeleton)


def generate(world: Any, player: Any) -> None:
    """Fill a new world with materials and creatures, as `crafter.worldgen.generate_world` does."""
    width, height = world.area
    perm, gradients = _init(world.random.randint(0, 2**31 - 1))
    columns, rows = np.arange(width)[:, None], np.arange(height)[None, :]
    x, y = player.pos.tolist()
    distance = np.sqrt((columns - x) ** 2 + (rows - y) ** 2)
    across, down = np.arange(width, dtype=float), np.arange(height, dtype=float)

    def noise(z: int, size: float, stretch: tuple[float, float] = (1.0, 1.0)) -> Array:
        return _noise((across * stretch[0]) / size, (down * stretch[1]) / size, z, perm, gradients)

    start = 4 - distance
    start += 2 * noise(8, 3)
    start = 1 / (1 + np.exp(-start))
    water = (1 * noise(3, 15) + 0.15 * noise(3, 5)) + 0.1
    water -= 2 * start
    mountain = (1 * noise(0, 15) + 0.3 * noise(0, 5)) / 1.3
    mountain -= 4 * start + 0.3 * water
    raised = ~(start > 0.5) & (mountain > 0.15)
    low = ~(start > 0.5) & ~raised
    caves = raised & (noise(6, 7) > 0.15) & (mountain > 0.3)
    fifth_down, fifth_across = down / 5, across / 5
    horizontal = raised & ~caves & (_noise((2 * across) / 3, fifth_down / 3, 7, perm, gradients) > 0.4)
    vertical = raised & ~caves & ~horizontal & (_noise(fifth_across / 3, (2 * down) / 3, 7, perm, gradients) > 0.4)
    tunnels = horizontal | vertical
    sand = low & (water > 0.25) & (water <= 0.35) & (noise(4, 9) > -0.2)
    sea = low & ~sand & (water > 0.3)
    materials = np.full(world.area, _GRASS)
    materials[caves | tunnels], materials[sand], materials[sea] = _PATH, CODES["sand"], CODES["water"]
    kinds = np.zeros(world.area, np.uint8)
    kinds[low & ~sand & ~sea & (noise(5, 7) > 0)] = GRASSLAND
    rock = raised & ~caves & ~tunnels
    kinds[rock] = ORE
    kinds[rock & (mountain > 0.3) & (noise(6, 5) > 0.35)] = LAVA
    before = world.random.get_state(legacy=False)
    ahead = world.random.random_sample(2 * MOST_DRAWS * width * height)
    drawn = _materials(materials, kinds, noise(1, 8) > 0, noise(2, 6) > 0.4, mountain > 0.18, ahead, int(CODES["lava"]))
    creatures = np.zeros(world.area, np.uint8)
    drawn = _creatures(creatures, materials, tunnels, distance, ahead, drawn, _walkable())
    world.random.set_state(before)
    world.random.random_sample(drawn)
    world._mat_map[:] = materials
    for column, row in np.argwhere(creatures).tolist():
        kind = _CREATURES[creatures[column, row] - 1]
        place = (column, row)
        world.add(kind(world, place, player) if kind is not objects.Cow else kind(world, place))


def _walkable() -> Array:
    """Return which codes of materials the package calls walkable, bool [codes]."""
    walkable = np.zeros(len(CODES) + 1, bool)
    walkable[[CODES[name] for name in constants.walkable]] = True
    return walkable


@njit(cache=True)
def _noise(x: Array, y: Array, z: int, perm: Array, gradients: Array) -> Array:
    """Return the noise of each cell, float64 [columns, rows], at the coordinates `x` [columns] and `y` [rows]."""
    noise = np.empty((len(x), len(y)))
    for column in range(len(x)):
        for row in range(len(y)):
            noise[column, row] = _noise3(x[column], y[row], z, perm, gradients)
    return noise


@njit(cache=True)
def _materials(materials: Array, kinds: Array, coal: Array, iron: Array, high: Array, ahead: Array, lava: int) -> int:
    """Set the materials that random numbers decide, and return how many numbers of `ahead` were taken."""
    taken = 0
    for column in range(materials.shape[0]):
        for row in range(materials.shape[1]):
            kind = kinds[column, row]
            if kind == GRASSLAND:
                if ahead[taken] > 0.8:
                    materials[column, row] = _TREE
                taken += 1
            elif kind != SETTLED:
                code = lava if kind == LAVA else _STONE
                if coal[column, row]:
                    taken += 1
                    if ahead[taken - 1] > 0.85:
                        materials[column, row] = _COAL
                        continue
                if iron[column, row]:
                    taken += 1
                    if ahead[taken - 1] > 0.75:
                        materials[column, row] = _IRON
                        continue
                if high[column, row]:
                    taken += 1
                    if ahead[taken - 1] > 0.994:
                        materials[column, row] = _DIAMOND
                        continue
                materials[column, row] = code
    return taken


@njit(cache=True)
def _creatures(
    creatures: Array, materials: Array, tunnels: Array, distance: Array, ahead: Array, taken: int, walkable: Array
) -> int:
    """Set the cells in which a cow (1), a zombie (2) or a skeleton (3) begins, and return how many numbers of `ahead`
    were taken, with the `taken` ones before."""
    for column in range(materials.shape[0]):
        for row in range(materials.shape[1]):
            code = materials[column, row]
            if not walkable[code]:
                continue
            if distance[column, row] > 3 and code == _GRASS:
                taken += 1
                if ahead[taken - 1] > 0.985:
                    creatures[column, row] = 1
                    continue
            if distance[column, row] > 10:
                taken += 1
                if ahead[taken - 1] > 0.993:
                    creatures[column, row] = 2
                    continue
            if code == _PATH and tunnels[column, row]:
                taken += 1
                if ahead[taken - 1] > 0.95:
                    creatures[column, row] = 3
    return taken
