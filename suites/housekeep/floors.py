"""Floor plans: a room, its receptacles as boxes, where objects can lie on them, and where one can walk.

Lengths are metres; x and y lie in the floor, z points up, and the room's corner is the origin. A plan depends on its
number and on the names of the receptacles alone, so every task in a room has the same plans.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep.furniture import FURNITURE, Furniture

SALT = 11_13
"""Entropy of floor plans, distinct from that of start places."""
RADIUS = 0.18
"""Radius of the agent (Housekeep's configuration)."""
EYE = 1.5
"""Height of the agent's camera (Housekeep's configuration)."""
STEP = 0.25
"""Length of a step forward (Habitat's default)."""
REACH = 1.5
"""Largest horizontal distance at which an object is grabbed or released (Housekeep's configuration)."""
NEAR = 1.3
"""Horizontal distance from which every receptacle can be reached somewhere, with a margin."""
AIM = math.radians(15)
"""Largest angle between the gaze and what is grabbed or released on (choice; Housekeep takes what a crosshair
covers)."""
SLOTS = 12
"""Objects that a receptacle holds."""
CORNER, GAP, AISLE = 0.75, 0.05, 0.65
"""Free ends of walls, smallest gap between neighbours at a wall, and clearance around what stands free."""
TRIES = 400
ORDER = (1, 4, 0, 5, 2, 3)
"""Columns of a receptacle's places in the order in which they are taken, so that the first ones lie apart."""


class Floor(NamedTuple):
    """A floor plan with B receptacles, in the order of their names."""

    names: tuple[str, ...]
    size: tuple[float, float]
    boxes: Array
    """Lowest and highest corners of the boxes, float32 [2, 3, B]."""
    front: Array
    """Unit vectors from the back of each box to its front, float32 [B, 2]."""
    point: Array
    """Point at which the agent aims: the middle of the top, or of the front of open and closed furniture, float32
    [B, 3]."""
    slots: Array
    """Places of objects, float32 [B, 12, 3]."""
    inside: Array
    """Whether objects lie in it and are seen from the front only, bool [B]."""
    closed: Array
    """Whether the objects inside are seen only within reach, bool [B]."""
    blocks: Array
    """Whether the box blocks the view, bool [B]; a receptacle that lies flat does not."""
    walls: tuple[tuple[float, float, float, float], ...]
    """Rectangles that the agent's centre cannot enter: smallest x and y, then largest x and y, in metres."""
    free: Array
    """Points of a grid of 25 cm at which the agent can stand and which it can reach, float64 [n, 2]."""


@functools.lru_cache(maxsize=256)
def floor(names: tuple[str, ...], number: int) -> Floor:
    """Return floor plan `number` of a room with these receptacles. UserError for an unknown receptacle, or where no
    plan holds them all."""
    if lacking := [name for name in names if name not in FURNITURE]:
        raise UserError(
            f"receptacle {lacking[0]!r} of the table of preferences is none of Housekeep's "
            f"({', '.join(FURNITURE)}); rename it"
        )
    random = np.random.default_rng([SALT, number])
    for attempt in range(TRIES):
        if (plan := _drawn(names, random, attempt / TRIES)) is not None:
            return plan
    raise UserError(
        f"no floor plan holds the {len(names)} receptacles {', '.join(names)}; choose another suite.room, or a table "
        f"with fewer of them in it"
    )


class _Box(NamedTuple):
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    front: tuple[float, float]


def _drawn(names: Sequence[str], random: np.random.Generator, growth: float) -> Floor | None:
    kinds = [FURNITURE[name] for name in names]
    width, depth = random.uniform(5.0, 6.0) + 4 * growth, random.uniform(4.4, 5.2) + 4 * growth
    boxes: dict[int, _Box] = {}
    walls = {0: (width, (0.0, 1.0)), 1: (depth, (-1.0, 0.0)), 2: (width, (0.0, -1.0)), 3: (depth, (1.0, 0.0))}
    room = {wall: length - 2 * CORNER for wall, (length, _) in walls.items()}
    rows: dict[int, list[int]] = {wall: [] for wall in walls}
    order = random.permutation(len(kinds)).tolist()
    stacked = [at for at in order if kinds[at].stands in ("stacked", "hung")]
    for at in order:
        if kinds[at].stands != "wall":
            continue
        fitting = [wall for wall in walls if room[wall] >= kinds[at].width + GAP]
        if not fitting:
            return None
        wall = fitting[random.integers(len(fitting))]
        rows[wall].append(at)
        room[wall] -= kinds[at].width + GAP
    for wall, row in rows.items():
        spare = np.sort(random.uniform(0, room[wall], len(row))).tolist()
        along = CORNER
        for at, shift in zip(row, spare, strict=True):
            boxes[at] = _at_wall(kinds[at], wall, along + shift, width, depth, 0.0)
            along += kinds[at].width + GAP
    taken: set[int] = set()
    for at in stacked:
        bases = [
            base for base in boxes
            if base not in taken and kinds[base].stands == "wall" and kinds[base].top <= 1.0
            and (kinds[at].stands == "hung" or (kinds[base].holds == "closed" and kinds[base].width >= kinds[at].width))
        ]  # fmt: skip
        if not bases:
            return None
        base = bases[random.integers(len(bases))]
        taken.add(base)
        boxes[at] = _over(kinds[at], boxes[base], 0.0 if kinds[at].stands == "hung" else kinds[base].top)
    for at in order:
        if kinds[at].stands not in ("free", "flat"):
            continue
        placed = _free(kinds[at], [boxes[other] for other in boxes], random, width, depth)
        if placed is None:
            return None
        boxes[at] = placed
    return _checked(tuple(names), kinds, [boxes[at] for at in range(len(kinds))], (width, depth))


def _at_wall(kind: Furniture, wall: int, along: float, width: float, depth: float, base: float) -> _Box:
    """Return a box with its back at a wall, from `along` on counter-clockwise."""
    across, deep = (along, along + kind.width), kind.depth
    x, y = {
        0: (across, (0.0, deep)),
        1: ((width - deep, width), across),
        2: ((width - across[1], width - across[0]), (depth - deep, depth)),
        3: ((0.0, deep), (depth - across[1], depth - across[0])),
    }[wall]
    front = ((0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0))[wall]
    return _Box((x[0], y[0], base + kind.bottom), (x[1], y[1], base + kind.top), front)


def _over(kind: Furniture, base: _Box, height: float) -> _Box:
    """Return a box above `base`, in the middle of its width: hung things at its back, standing things at its front."""
    (fx, fy), low, high = base.front, list(base.low), list(base.high)
    along, across = (0, 1) if fx == 0 else (1, 0)
    middle = (base.low[along] + base.high[along]) / 2
    low[along], high[along] = middle - kind.width / 2, middle + kind.width / 2
    forward = (fx + fy) > 0
    if (height == 0.0) == forward:
        high[across] = low[across] + kind.depth
    else:
        low[across] = high[across] - kind.depth
    low[2], high[2] = height + kind.bottom, height + kind.top
    return _Box((low[0], low[1], low[2]), (high[0], high[1], high[2]), base.front)


def _free(
    kind: Furniture, others: Sequence[_Box], random: np.random.Generator, width: float, depth: float
) -> _Box | None:
    """Return a box away from the walls and from the others; what lies flat may come closer to them."""
    aisle = 0.15 if kind.stands == "flat" else AISLE
    for _ in range(60):
        sides = (kind.width, kind.depth) if random.integers(2) else (kind.depth, kind.width)
        x = random.uniform(aisle, width - aisle - sides[0])
        y = random.uniform(aisle, depth - aisle - sides[1])
        apart = all(
            x > other.high[0] + aisle or x + sides[0] < other.low[0] - aisle
            or y > other.high[1] + aisle or y + sides[1] < other.low[1] - aisle
            for other in others
        )  # fmt: skip
        if apart:
            front = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))[random.integers(4)]
            return _Box((x, y, kind.bottom), (x + sides[0], y + sides[1], kind.top), front)
    return None


def _checked(
    names: tuple[str, ...], kinds: Sequence[Furniture], boxes: Sequence[_Box], size: tuple[float, float]
) -> Floor | None:
    """Return the plan of these boxes, or None where one cannot be reached and seen from a place to stand."""
    low, high, front = (np.array([getattr(box, name) for box in boxes]) for name in ("low", "high", "front"))
    inside = np.array([kind.holds != "top" for kind in kinds])
    walls = tuple(
        (box.low[0] - RADIUS, box.low[1] - RADIUS, box.high[0] + RADIUS, box.high[1] + RADIUS)
        for box, kind in zip(boxes, kinds, strict=True)
        if kind.stands not in ("flat", "hung")
    )
    middle = (low + high) / 2
    half = (high - low)[:, :2] / 2
    point = np.concatenate([middle[:, :2], high[:, 2:] + 0.02], 1)
    faces = middle[:, :2] + front * (half + 0.01)
    point[inside] = np.concatenate([faces, middle[:, 2:]], 1)[inside]
    slots = np.stack([_slots(box, kind) for box, kind in zip(boxes, kinds, strict=True)])
    plan = Floor(
        names=names,
        size=size,
        boxes=np.stack([low.T, high.T]).astype(np.float32),
        front=front.astype(np.float32),
        point=point.astype(np.float32),
        slots=slots.astype(np.float32),
        inside=inside,
        closed=np.array([kind.holds == "closed" for kind in kinds]),
        blocks=np.array([kind.stands != "flat" for kind in kinds]),
        walls=walls,
        free=np.zeros((0, 2)),
    )
    free = _walkable(plan)
    every, counted = np.arange(len(names)), ~np.eye(len(names), dtype=bool) & plan.blocks
    reached = np.zeros(len(names), bool)
    for x, y in free.tolist():
        near = np.hypot(*(point[:, :2] - (x, y)).T) <= NEAR
        if (near & ~reached).any():
            reached |= near & clear(plan, x, y, plan.point, counted) & (faced(plan, x, y, every) | ~inside)
    return plan._replace(free=free) if reached.all() else None


def _slots(box: _Box, kind: Furniture) -> Array:
    """Return the places of twelve objects on or in a box, float64 [12, 3]: six columns along its width, two rows."""
    along, across = (0, 1) if box.front[0] == 0 else (1, 0)
    low, high = np.array(box.low), np.array(box.high)
    columns = low[along] + (np.array(ORDER) + 0.5) / 6 * (high[along] - low[along])
    places = np.empty((2, 6, 3))
    places[..., along] = columns
    if kind.holds == "top":
        rows = np.array([[0.65], [0.3]]) if sum(box.front) > 0 else np.array([[0.35], [0.7]])
        places[..., across] = low[across] + rows * (high[across] - low[across])
        places[..., 2] = high[2] + 0.06
    else:
        face = high[across] - 0.02 if sum(box.front) > 0 else low[across] + 0.02
        places[..., across] = face
        places[..., 2] = low[2] + np.array([[0.35], [0.75]]) * (high[2] - low[2])
    return places.reshape(SLOTS, 3)


def clear(plan: Floor, x: float, y: float, points: Array, counted: Array) -> Array:
    """Return which points, float32 [n, 3], no box hides from an eye above (x, y): bool [n]. `counted`: bool [n, B], the
    boxes that can hide a point."""
    eye = np.array((x, y, EYE), np.float32)[:, None]
    way = np.ascontiguousarray(points.T) - eye
    way[way == 0] = 1e-9
    ends = (plan.boxes - eye)[:, :, None, :] * (1 / way)[None, :, :, None]  # [low or high, axis, n, B]
    near, far = np.minimum(ends[0], ends[1]), np.maximum(ends[0], ends[1])
    first, last = np.maximum(np.maximum(near[0], near[1]), near[2]), np.minimum(np.minimum(far[0], far[1]), far[2])
    hidden = first < last
    hidden &= last > 0
    hidden &= first < 1
    hidden &= counted
    return ~np.logical_or.reduce(hidden, 1)  # type: ignore[no-any-return]


def faced(plan: Floor, x: float, y: float, receptacles: Array) -> Array:
    """Return which of the receptacles, int [n], have (x, y) before their front: bool [n]."""
    face, front = plan.point[receptacles], plan.front[receptacles]
    return np.asarray((x - face[:, 0]) * front[:, 0] + (y - face[:, 1]) * front[:, 1] > 0)


def standable(plan: Floor, x: float, y: float) -> bool:
    """Return whether the agent can stand at a place."""
    width, depth = plan.size
    if not (RADIUS <= x <= width - RADIUS and RADIUS <= y <= depth - RADIUS):
        return False
    return all(not (x0 < x < x1 and y0 < y < y1) for x0, y0, x1, y1 in plan.walls)


def moved(plan: Floor, x: float, y: float, heading: float) -> tuple[float, float]:
    """Return where a step forward ends. Against furniture or a wall the agent slides along it (Housekeep's
    configuration), or stays."""
    dx, dy = STEP * math.cos(heading), STEP * math.sin(heading)
    for to in ((x + dx, y + dy), (x + dx, y), (x, y + dy)):
        if standable(plan, *to):
            return to
    return x, y


def _walkable(plan: Floor) -> Array:
    """Return the largest connected part of a grid of 25 cm where the agent can stand, float64 [n, 2]."""
    width, depth = plan.size
    cells = {
        (i, j) for i in range(int(width / STEP) + 1) for j in range(int(depth / STEP) + 1)
        if standable(plan, i * STEP, j * STEP)
    }  # fmt: skip
    largest: set[tuple[int, int]] = set()
    while cells:
        part, waiting = set(), [min(cells)]
        while waiting:
            i, j = waiting.pop()
            if (i, j) in cells:
                cells.discard((i, j))
                part.add((i, j))
                waiting += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        largest = max(largest, part, key=len)
    return np.array(sorted(largest), float).reshape(-1, 2) * STEP
