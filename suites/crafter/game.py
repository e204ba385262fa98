"""Crafter's own dynamics, without drawing, deterministic under a seed and with their complete state.

The package keeps the objects of a chunk in a Python set. Their order, which follows memory addresses, decides which
creature vanishes when a chunk has too many, so two processes with equal seeds differ. Here a chunk keeps its objects in
the order in which they entered it.

At night the package draws noise for the picture from the same random stream that moves creatures. A game that draws no
picture takes the same number of draws, and keeps the state of the stream from before, from which a picture can be drawn
later.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from crafter import Env, constants, engine, objects

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State
from guidebench.suites.crafter import worlds
from guidebench.suites.crafter.captions import before, caption
from guidebench.suites.crafter.snapshots import Scene

MATERIALS = tuple(constants.materials)
"""Names of materials; the code of a material is its index + 1, and 0 is a cell outside the world."""
OBJECT_PICTURES = (
    "player-left", "player-right", "player-up", "player-down", "player-sleep", "cow", "zombie", "skeleton",
    "arrow-left", "arrow-right", "arrow-up", "arrow-down", "plant", "plant-ripe", "fence",
)  # fmt: skip
"""Names of the pictures of objects; the code of an object is its index + 1, and 0 is a cell without one."""
CODES = {name: code for code, name in enumerate(OBJECT_PICTURES, 1)}
ITEMS = tuple(constants.items)
"""Names of the inventory's entries; the first four are health, food, drink and energy."""
ACTIONS = tuple(constants.actions)
ACHIEVEMENTS = tuple(constants.achievements)
KINDS = (objects.Player, objects.Cow, objects.Zombie, objects.Skeleton, objects.Arrow, objects.Plant, objects.Fence)
COUNTERS = {objects.Zombie: "cooldown", objects.Skeleton: "reload", objects.Plant: "grown"}
"""Class of objects -> the counter that it keeps besides its health."""
PLAYER = ("_last_health", "_hunger", "_thirst", "_fatigue", "_recover")
"""Counters of the player besides its inventory and achievements."""
CHUNK = (12, 12)
NIGHT = 0.5
"""Daylight below which the package draws noise."""


class Members:
    """A set that iterates in the order in which its members were added; one that leaves and returns is last."""

    def __init__(self) -> None:
        self._members: dict[Any, None] = {}

    def add(self, member: Any) -> None:
        self._members[member] = None

    def remove(self, member: Any) -> None:
        del self._members[member]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


class World(engine.World):  # type: ignore[misc]
    """The package's world, whose chunks keep their objects in order."""

    around: tuple[int, int, int, int] | None = None
    """Columns and rows, as slices, outside of which no object acts in the present step; None for everywhere."""

    def reset(self, seed: int | None = None) -> None:
        super().reset(seed)
        self._chunks: dict[tuple[int, ...], Members] = collections.defaultdict(Members)

    @property
    def objects(self) -> list[Any]:
        """Return the objects in the order in which they entered the world, as the package does; while `around` is set,
        only those within it, which saves computing distances to the others."""
        if self.around is None:
            return [thing for thing in self._objects if thing]
        x0, x1, y0, y1 = self.around
        numbers = self._obj_map[x0:x1, y0:y1]
        return [self._objects[number] for number in np.sort(numbers[numbers > 0]).tolist()]


class Game(Env):  # type: ignore[misc]
    """The package's environment on a square `area` with a square `view`, both in cells.

    `size` is the side in pixels of the picture that the package would draw at every step, which decides how many
    random numbers a step at night takes. `length` is the longest episode in steps, 0 for any. Without `zombies` none
    is there at the beginning and none appears; without `needs` the player gets neither hungry nor thirsty nor tired.
    Either makes another game of it than the package's.
    """

    def __init__(self, area: int, view: int, size: int, length: int, zombies: bool = True, needs: bool = True) -> None:
        super().__init__((area, area), (view, view), (size, size), length=length, seed=0)
        self._world = World((area, area), constants.materials, CHUNK)
        self._sem_view = _nothing
        self._view = (view, view)
        self._zombies, self._needs = zombies, needs
        self.grid: tuple[int, int] = (view, view - -(-len(ITEMS) // view))
        """Width and height in cells of the part of the world that the player sees."""
        width, height = self.grid
        self._draws = width * (size // view) * height * (size // view)
        self.noise: tuple[Array, int] | None = None
        """Words and position of the random stream from which the noise of the current picture is drawn; None by
        day."""
        self._local: tuple[Array, Array] | None = None
        self.caption = ""
        """What the player did in the last step (`guidebench.suites.crafter.captions`); "" before an episode's first."""

    # The package's interface

    def begin(self, seed: int | None) -> None:
        """Begin an episode: the first one of `seed`, or without a seed the one that follows the last episode."""
        if seed is not None:
            self._seed, self._episode = int(seed), 0
        self.reset()

    def reset(self) -> None:
        """Begin the episode that follows the last one: the package's, by a faster generator of the same world."""
        self._episode += 1
        self._step = 0
        world = self._world
        world.reset(seed=hash((self._seed, self._episode)) % (2**31 - 1))
        self._update_time()
        self._player = player = objects.Player(world, (world.area[0] // 2, world.area[1] // 2))
        player.distance = functools.partial(_distance, player)
        world.add(player)
        self._last_health = player.health
        self._unlocked: set[str] = set()
        worlds.generate(world, player)
        self._obs()
        if not self._zombies:
            for thing in world.objects:
                if isinstance(thing, objects.Zombie):
                    world.remove(thing)
        self.caption = ""

    def step(self, action: int) -> Any:
        """Take one of the package's 17 actions; return what the package's `step` returns."""
        if not self._needs:
            self._player._hunger = self._player._thirst = self._player._fatigue = 0
        reach = 2 * max(self._view) + 1  # objects nearer than that act, after the player may have moved
        x, y = self._player.pos.tolist()
        self._world.around = max(x - reach, 0), x + reach + 1, max(y - reach, 0), y + reach + 1
        was = before(self._player, ACTIONS[action])
        try:
            stepped = super().step(action)
        finally:
            self._world.around = None
        self.caption = caption(was, self._player, ACTIONS[action])
        return stepped

    def _balance_object(self, chunk: Any, inside: Any, cls: Any, *rest: Any) -> None:
        if self._zombies or cls is not objects.Zombie:
            super()._balance_object(chunk, inside, cls, *rest)

    def _obs(self) -> None:
        """Take the random numbers of the package's picture, without drawing it."""
        self._local = None
        self.noise = None
        if self._world.daylight < NIGHT:
            stream = self._world.random.get_state(legacy=False)["state"]
            self.noise = stream["key"], int(stream["pos"])
            self._world.random.random_sample(self._draws)

    # Views and text

    @property
    def player(self) -> Any:
        return self._player

    @property
    def world(self) -> Any:
        return self._world

    @property
    def steps(self) -> int:
        """Number of steps in this episode."""
        return int(self._step)

    @property
    def daylight(self) -> float:
        return float(self._world.daylight)

    @property
    def dead(self) -> bool:
        return bool(self._player.health <= 0)

    @property
    def unlocked(self) -> set[str]:
        """Names of the achievements unlocked in this episode; do not change it."""
        names: set[str] = self._unlocked
        return names

    def visible_cells(self) -> tuple[Array, Array]:
        """Return the codes of materials and of objects in the part of the world that the player sees, uint8
        [width, height] each, by column and row; the player is in the middle. Do not change them."""
        if self._local is None:
            self._local = self._look()
        return self._local

    def _look(self) -> tuple[Array, Array]:
        width, height = self.grid
        world, (x, y) = self._world, self._player.pos.tolist()
        x_origin, y_origin = x - width // 2, y - height // 2
        materials, things = np.zeros((2, width, height), np.uint8)
        x0, x1 = max(x_origin, 0), min(x_origin + width, world.area[0])
        y0, y1 = max(y_origin, 0), min(y_origin + height, world.area[1])
        materials[x0 - x_origin : x1 - x_origin, y0 - y_origin : y1 - y_origin] = world._mat_map[x0:x1, y0:y1]
        numbers = world._obj_map[x0:x1, y0:y1]
        columns, rows = numbers.nonzero()
        for column, row, number in zip(columns.tolist(), rows.tolist(), numbers[columns, rows].tolist(), strict=True):
            things[column + x0 - x_origin, row + y0 - y_origin] = CODES[world._objects[number].texture]
        return materials, things

    def changed(self) -> None:
        """Forget what was seen, after the world or the player was changed from outside."""
        self._local = None

    def semantic(self) -> Array:
        """Return the package's semantic view of the whole world, uint8 [area, area]: codes of materials, and 13 to 18
        for player, cow, zombie, skeleton, arrow and plant."""
        codes: Array = self._world._mat_map.copy()
        for thing in self._world.objects:
            codes[tuple(thing.pos)] = 1 + len(MATERIALS) + KINDS.index(type(thing))
        return codes

    def levels(self) -> bytes:
        """Return the amount of each item, one byte each, in the order of `ITEMS`."""
        return bytes(self._player.inventory.values())

    def scene(self) -> Scene:
        """Return what a picture of the present state shows."""
        return Scene(*self.visible_cells(), self.levels(), self._player.sleeping, self.daylight, self.noise)

    # State

    def state(self) -> State:
        """Return everything that decides the future, later episodes included; call after `begin`."""
        world, player = self._world, self._player
        things = world.objects
        number = {thing: index for index, thing in enumerate(things)}
        chunks = list(world._chunks.items())
        stream = world.random.get_state(legacy=False)["state"]
        return {
            "materials": world._mat_map.copy(),
            "kinds": np.array([KINDS.index(type(thing)) for thing in things], np.uint8),
            "places": np.array([thing.pos for thing in things], np.int64),
            "health": np.array([thing.health for thing in things], np.int64),
            "counters": np.array([getattr(thing, COUNTERS.get(type(thing), ""), 0) for thing in things], np.int64),
            "facing": np.array([getattr(thing, "facing", (0, 0)) for thing in things], np.int64),
            "chunks": np.array([chunk for chunk, _ in chunks], np.int64).reshape(-1, 4),
            "members": np.array([number[thing] for _, inside in chunks for thing in inside], np.int64),
            "sizes": np.array([len(inside) for _, inside in chunks], np.int64),
            "inventory": dict(player.inventory),
            "achievements": dict(player.achievements),
            "player": {name: getattr(player, name) for name in PLAYER},
            "sleeping": bool(player.sleeping),
            "random": {"key": stream["key"], "position": int(stream["pos"])},
            "noise": None if self.noise is None else {"key": self.noise[0].copy(), "position": self.noise[1]},
            "step": self.steps,
            "seed": self._seed,
            "episode": self._episode,
            "health_before": self._last_health,
            "unlocked": sorted(self._unlocked),
        }

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for a world of another size."""
        world, materials = self._world, np.asarray(state["materials"])
        if materials.shape != world.area:
            raise UserError(f"a state of a world of {materials.shape} cells does not fit an area of {world.area}")
        world.reset(0)
        _restore(world.random, state["random"])
        world._mat_map[:] = materials
        self._seed, self._episode, self._step = int(state["seed"]), int(state["episode"]), int(state["step"])
        self._update_time()
        things = self._things(state)
        for thing in things:
            world.add(thing)
        world._chunks.clear()
        members = iter(np.asarray(state["members"]).tolist())
        for chunk, size in zip(np.asarray(state["chunks"]).tolist(), np.asarray(state["sizes"]).tolist(), strict=True):
            inside = world._chunks[tuple(chunk)]
            for _ in range(size):
                inside.add(things[next(members)])
        self._last_health, self._unlocked = state["health_before"], set(state["unlocked"])
        noise = state["noise"]
        self.noise = None if noise is None else (np.array(noise["key"], np.uint32), int(noise["position"]))
        self._local = None
        self.caption = ""

    def _things(self, state: State) -> list[Any]:
        """Return the objects of a state, in order; the player becomes this game's."""
        objects_made = []
        columns = (np.asarray(state[name]).tolist() for name in ("kinds", "places", "health", "counters", "facing"))
        for kind, place, health, counter, facing in zip(*columns, strict=True):
            cls = KINDS[kind]
            if cls is objects.Player:
                thing = self._player = self._restored(place, tuple(facing), state)
            elif cls in (objects.Zombie, objects.Skeleton):
                thing = cls(self._world, place, self._player)
            elif cls is objects.Arrow:
                thing = cls(self._world, place, np.array(facing))
            else:
                thing = cls(self._world, place)
            thing.inventory["health"] = health
            if cls in COUNTERS:
                setattr(thing, COUNTERS[cls], counter)
            objects_made.append(thing)
        return objects_made

    def _restored(self, place: list[int], facing: tuple[int, ...], state: State) -> Any:
        player = objects.Player(self._world, place)
        player.facing, player.sleeping = facing, bool(state["sleeping"])
        player.inventory = {name: state["inventory"][name] for name in ITEMS}
        player.achievements = {name: state["achievements"][name] for name in ACHIEVEMENTS}
        for name in PLAYER:
            setattr(player, name, state["player"][name])
        player.distance = functools.partial(_distance, player)
        return player


def _restore(stream: np.random.RandomState, saved: State) -> None:
    stream.set_state(("MT19937", np.array(saved["key"], np.uint32), int(saved["position"]), 0, 0.0))


def _distance(player: Any, target: Any) -> int:
    """Return the package's distance of an object or a place to the player, in cells, computed with plain integers."""
    x, y = player.pos.tolist()
    column, row = getattr(target, "pos", target).tolist()
    return abs(column - x) + abs(row - y)  # type: ignore[no-any-return]


def _nothing() -> None:
    """Return nothing in place of the package's semantic view, which every step would compute."""
