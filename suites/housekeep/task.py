"""A task of Housekeep: a room with misplaced items, seen by an agent that walks, turns, looks, grabs and releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.housekeep import deeds, words
from guidebench.suites.housekeep.floors import AIM, EYE, REACH, SLOTS, clear, faced, moved
from guidebench.suites.housekeep.items import MOST, OBJECTS
from guidebench.suites.housekeep.layouts import Layout, layout, rules
from guidebench.suites.housekeep.snapshots import pack

if TYPE_CHECKING:
    from guidebench.suites.housekeep import Housekeep
    from guidebench.suites.housekeep.expert import Expert

FORWARD, TURN_LEFT, TURN_RIGHT, UP, DOWN, GRAB_RELEASE = range(6)
TURN, TILT = math.radians(20), math.radians(10)
START_TILT = -3
"""Pitch at the start in tilts: 30 degrees down (Housekeep's configuration)."""
LOWEST, HIGHEST = -6, 6
"""Bounds of the pitch, in tilts."""
RANGE = 5.0
"""Distance in metres up to which things are seen (Housekeep's depth camera)."""
HALF_VIEW = math.radians(45)
"""Half of the field of view, across and up (Housekeep's cameras, 90 degrees)."""
VIEW = math.cos(HALF_VIEW)
SIZE = len(OBJECTS)
INSTRUCTION = (
    "tidy the room: find the items that lie where they do not belong, and put each on a receptacle where it does"
)
STAGES = ("find", "grab", "find receptacle of", "release")
"""Sub-goals of an item, in order."""


class HousekeepTask:
    """One task; its items are those of `guidebench.suites.housekeep.items.TASKS`.

    An episode succeeds, and ends, once all items lie on correct receptacles. The reward is then 1, and else 0, or with
    `settings.reward` = `placed` the change of the share of items placed.
    """

    def __init__(self, name: str, settings: Housekeep) -> None:
        self._name, self._settings = name, settings
        table = settings.preferences_table()
        self.rules = rules(name, settings.room, table, settings.distractors, settings.items)
        self._space = settings.spaces(name)[0].numpy
        self._layouts: dict[int, Layout] = {}
        self._random = np.random.default_rng(0)
        self._met = np.zeros((len(self.rules.items), len(STAGES)), bool)
        self._new = np.zeros((MOST, len(STAGES)), bool)
        self._items = np.array(self.rules.items)
        self._expert: Expert | None = None
        self._caption = ""
        self.instruction = INSTRUCTION
        self.max_steps = settings.length

    # Episodes

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        pool = self._settings.layouts
        self.number = int(self._random.integers(pool if pool is not None else 2**31))
        self._begin(self.number)
        if self._settings.start == "holding":
            self.held = self.rules.items[0]
            self.put(self.held, -1, -1)
            self._update_sight()
        self._met[:] = self._new[:] = False
        self._steps, self._share, self._caption = 0, 0.0, ""
        self._expert = None
        self._update_view()
        self._advance()
        self._new[:] = False
        return self._observation()

    def _begin(self, number: int) -> None:
        """Take the start of a layout."""
        start = self._layouts.get(number)
        if start is None:
            start = layout(self._name, self.rules, self._settings.distractors, number)
            if len(self._layouts) < 256:
                self._layouts[number] = start
        self.start = start
        self.floor = start.floor
        self.place, self.slot = np.empty_like(start.place), np.empty_like(start.slot)
        self.held = -1
        self.x, self.y = start.x, start.y
        self.turns, self.tilts = 0, START_TILT
        count = len(self.floor.names)
        self.points = np.concatenate([np.zeros((SIZE, 3), np.float32), self.floor.point])
        self._counted = np.tile(self.floor.blocks, (SIZE + count, 1))
        self._counted[SIZE + np.arange(count), np.arange(count)] = False
        self._owner = np.arange(-SIZE, count)
        self._present = np.ones(SIZE + count, bool)
        self._inside = np.concatenate([np.zeros(SIZE, bool), self.floor.inside])
        self._closed = np.zeros(SIZE + count, bool)
        for thing in range(SIZE):
            self.put(thing, int(start.place[thing]), int(start.slot[thing]))
        self._update_sight()

    def step(self, action: Any) -> Step:
        action = int(action)
        self._caption = ""
        if action == FORWARD:
            to = moved(self.floor, self.x, self.y, self.heading)
            if to != (self.x, self.y):
                self.x, self.y = to
                self._update_sight()
        elif action == TURN_LEFT:
            self.turns = (self.turns + 1) % 18
        elif action == TURN_RIGHT:
            self.turns = (self.turns - 1) % 18
        elif action == UP:
            self.tilts = min(self.tilts + 1, HIGHEST)
        elif action == DOWN:
            self.tilts = max(self.tilts - 1, LOWEST)
        elif action == GRAB_RELEASE:
            self._grab_release()
        else:
            raise ValueError(f"action {action} is none of Housekeep's six, 0 to 5")
        self._update_view()
        self._steps += 1
        self._advance()
        reward, success = 0.0, False
        if action == GRAB_RELEASE:
            share = self.score()
            success = share == 1
            reward = float(success) if self._settings.reward == "success" else share - self._share
            self._share = share
        return Step(self._observation(), reward, success, self._steps >= self.max_steps, success)

    @property
    def heading(self) -> float:
        """Return the agent's direction in radians: 0 along x, counter-clockwise."""
        return (self.start.heading + self.turns * TURN) % math.tau

    @property
    def pitch(self) -> float:
        """Return the camera's angle above the horizon, in radians."""
        return self.tilts * TILT

    # What is in view: `_update_sight` runs after a change of place, `_update_view` after every step

    def _update_sight(self) -> None:
        """Compute distance, direction and free sight of all things from the agent's place. Things are the 24 objects
        and then the receptacles."""
        points = self.points
        x, y, z = points[:, 0] - self.x, points[:, 1] - self.y, points[:, 2] - EYE
        self._distance = np.sqrt(x * x + y * y)
        level = np.maximum(self._distance, 1e-6)
        self._sine, self._cosine = y / level, x / level
        self._elevation = np.arctan2(z, level)
        self._free = self._present & (self._distance <= RANGE) & self._sight(self.x, self.y, slice(None))

    def free_sight(self, x: float, y: float, things: Array) -> Array:
        """Return whether each of the things, int [n], can be seen from a place if one looks towards it, bool [n]. Open
        and closed furniture, and its contents, are seen from the front only; contents of closed furniture, only within
        reach of the front."""
        return self._present[things] & self._sight(x, y, things)

    def _sight(self, x: float, y: float, things: Any) -> Array:
        owner, inside = self._owner[things], self._inside[things]
        free = clear(self.floor, x, y, self.points[things], self._counted[things])
        free &= faced(self.floor, x, y, owner) | ~inside
        if (closed := self._closed[things]).any():
            face = self.floor.point[owner]
            free &= ~closed | (np.hypot(x - face[:, 0], y - face[:, 1]) <= REACH)
        return free

    def _update_view(self) -> None:
        """Compute which things are in view: in the field of view, in free sight and not held."""
        sine, cosine = math.sin(self.heading), math.cos(self.heading)
        self._aside_sine = self._sine * cosine - self._cosine * sine
        self._aside_cosine = self._cosine * cosine + self._sine * sine
        self._visible = self._free & (self._aside_cosine >= VIEW) & (np.abs(self._elevation - self.pitch) <= HALF_VIEW)

    def aimed(self, x: float, y: float, heading: float, pitch: float, things: Array, free: Array) -> int:
        """Return which of the things, int [n], is grabbed or released on from a pose: the one in free sight (`free`,
        bool [n]) and within reach that is closest to the gaze, within 15 degrees; -1 for none."""
        to = self.points[things].astype(float) - (x, y, EYE)
        level = np.hypot(to[:, 0], to[:, 1])
        length = np.hypot(level, to[:, 2])
        gaze = (math.cos(pitch) * math.cos(heading), math.cos(pitch) * math.sin(heading), math.sin(pitch))
        cosine = np.where(free & (level <= REACH), (to @ gaze) / length, -2.0)
        best = int(cosine.argmax()) if len(cosine) else -1
        return int(things[best]) if best >= 0 and cosine[best] >= math.cos(AIM) else -1

    def reachable(self) -> Array:
        """Return the things on which `GRAB_RELEASE` can act now, by number: objects for an empty hand, and receptacles
        with room for a full one."""
        if self.held < 0:
            return np.flatnonzero(self.place >= 0)
        load = np.bincount(self.place[self.place >= 0], minlength=len(self.floor.names))
        return SIZE + np.flatnonzero(load < SLOTS)

    def _grab_release(self) -> None:
        if not (self._visible & (self._distance <= REACH)).any():
            return
        things = self.reachable()
        at = self.aimed(self.x, self.y, self.heading, self.pitch, things, self._free[things])
        if at < 0:
            return
        if self.held < 0:
            self.held = at
            self.put(at, -1, -1)
            self._caption = deeds.grab(at)
        else:
            receptacle = at - SIZE
            occupied = set(self.slot[self.place == receptacle].tolist())
            thing, self.held = self.held, -1
            self.put(thing, receptacle, next(slot for slot in range(SLOTS) if slot not in occupied))
            self._caption = deeds.put(thing, self.floor.names[receptacle])
        self._update_sight()

    def put(self, thing: int, receptacle: int, slot: int) -> None:
        """Move an object to a receptacle's place; -1, -1 takes it out of the room."""
        self.place[thing], self.slot[thing], self._owner[thing] = receptacle, slot, receptacle
        self._present[thing] = receptacle >= 0
        self._counted[thing] = self.floor.blocks
        if receptacle >= 0:
            self.points[thing] = self.floor.slots[receptacle, slot]
            self._counted[thing, receptacle] = False
            self._inside[thing], self._closed[thing] = self.floor.inside[receptacle], self.floor.closed[receptacle]

    # Sub-goals

    def placed(self) -> Array:
        """Return which items lie on a correct receptacle, bool [items]."""
        at = self.place[self._items]
        is_placed: Array = (at >= 0) & self.rules.correct[self._items, at]
        return is_placed

    def _advance(self) -> None:
        """Update which sub-goals are met; each requires the earlier ones of its item."""
        self._new[:] = False
        progress = self._met
        visible = self._visible
        subgoals: list[tuple[int, int]] = []
        for number, thing in enumerate(self.rules.items):
            stages = progress[number]
            if not stages[0]:
                if not (visible[thing] or self.held == thing):
                    continue
                stages[0] = True
                subgoals.append((number, 0))
            if self.held == thing:
                if not stages[1]:
                    stages[1] = True
                    subgoals.append((number, 1))
                if not stages[2] and (visible[SIZE:] & self.rules.correct[thing]).any():
                    stages[2] = True
                    subgoals.append((number, 2))
            elif (
                stages[1] and not stages[3] and self.place[thing] >= 0 and self.rules.correct[thing, self.place[thing]]
            ):
                subgoals += [(number, stage) for stage in (2, 3) if not stages[stage]]
                stages[2:] = True
        for subgoal in subgoals:
            self._new[subgoal] = True

    def events(self) -> Array:
        """Return which sub-goals the last step met, bool [28]: four of each item in the order of the task; a task with
        fewer items leaves the rest."""
        return self._new.ravel().copy()

    def subgoals(self) -> Mapping[str, bool]:
        """Return which sub-goals have been met in this episode, as `1 find spatula`."""
        return {
            f"{number} {stage} {words.plain(OBJECTS[thing])}": bool(self._met[number - 1, at])
            for number, thing in enumerate(self.rules.items, 1)
            for at, stage in enumerate(STAGES)
        }

    def score(self) -> float:
        """Return the share of the items that lie on a correct receptacle now: DSADF's object success (§5.4), in
        [0, 1]."""
        return int(self.placed().sum()) / len(self.rules.items)

    completion = score

    def expert(self) -> int:
        """Return the action of a scripted agent that knows the layout and where everything belongs. It follows a plan,
        which is part of the task's state."""
        from guidebench.suites.housekeep.expert import Expert

        if self._expert is None:
            self._expert = Expert(self)
        return self._expert.act()

    # Observations

    def _observation(self) -> Array:
        record = np.zeros((), self._space)
        visible, count = self._visible, len(self.floor.names)
        things = np.empty((len(visible), 5), np.float32)
        things[:, 0] = 1
        things[:, 1] = self._distance
        things[:, 2] = self._aside_sine
        things[:, 3] = self._aside_cosine
        things[:, 4] = self._elevation
        things *= visible[:, None]
        record["objects"] = things[:SIZE].ravel()
        record["receptacles"][: 5 * count] = things[SIZE:].ravel()
        record["places"] = (self.place + 1) * visible[:SIZE]
        record["held"] = self.held + 1
        heading = self.heading
        record["pose"] = (math.sin(heading), math.cos(heading), self.pitch)
        if self._settings.observation == "text":
            sentences = self.text().encode()
            record["text"][: len(sentences)] = np.frombuffer(sentences, np.uint8)
        return record

    def visible(self) -> tuple[list[int], list[int]]:
        """Return the objects and the receptacles in view, by number."""
        visible_things = np.flatnonzero(self._visible).tolist()
        return [thing for thing in visible_things if thing < SIZE], [
            thing - SIZE for thing in visible_things if thing >= SIZE
        ]

    def text(self) -> str:
        """Return sentences about what is in view and in the hand (`guidebench.suites.housekeep.words`)."""
        return words.text(self)

    def caption(self) -> str:
        """Return what the last step grabbed or released, such as `grab mug` or `put mug on table`; "" for any other."""
        return self._caption

    def side(self, thing: int) -> tuple[float, float]:
        """Return a thing's direction from the gaze in radians, to the left positive, and its distance in metres. Things
        are numbered as in `_update_sight`."""
        return math.atan2(self._aside_sine[thing], self._aside_cosine[thing]), float(self._distance[thing])

    def snapshot(self) -> Array:
        """Return what a picture shows, uint8 [n] (`guidebench.suites.housekeep.snapshots`)."""
        shut = self._closed[:SIZE] & ~self._free[:SIZE]
        at = (self.x, self.y)
        return pack(self.floor, self.points[:SIZE], self.place, shut, self.held, at, self.heading, self.pitch)

    def position(self) -> bytes | None:
        """Return place, heading, pitch, held object and the places of all objects; None if the reward is not 1 for
        success alone, since a repeated position is then no failure."""
        if self._settings.reward != "success":
            return None
        pose = np.array((self.x, self.y, self.turns, self.tilts, self.held, self.number), float)
        return pose.tobytes() + self.place.astype(np.int8).tobytes() + self.slot.astype(np.int8).tobytes()

    def state(self) -> State:
        """Return the complete state, including that of later episodes; call after the first `reset`."""
        return {
            "random": self._random.bit_generator.state,
            "number": self.number,
            "pose": np.array((self.x, self.y)),
            "turns": self.turns,
            "tilts": self.tilts,
            "held": self.held,
            "steps": self._steps,
            "place": self.place.copy(),
            "slot": self.slot.copy(),
            "met": self._met.copy(),
            "solver": None if self._expert is None else self._expert.state(),
        }

    def load_state(self, state: State) -> None:
        from guidebench.suites.housekeep.expert import Expert

        self._random.bit_generator.state = state["random"]
        self.number = int(state["number"])
        self._begin(self.number)
        self.x, self.y = np.asarray(state["pose"], float).tolist()
        self.turns, self.tilts, self.held = int(state["turns"]), int(state["tilts"]), int(state["held"])
        self._steps = int(state["steps"])
        for thing, (place, slot) in enumerate(zip(state["place"], state["slot"], strict=True)):
            self.put(thing, int(place), int(slot))
        self._met[:] = state["met"]
        self._new[:] = False
        self._share, self._caption = self.score(), ""
        self._expert = None
        if state["solver"] is not None:
            self._expert = Expert(self)
            self._expert.load_state(state["solver"])
        self._update_sight()
        self._update_view()
