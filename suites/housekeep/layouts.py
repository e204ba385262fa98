"""Layouts: a floor plan, where objects lie in it at the start, and where the agent stands.

A layout depends on its number, the task, the room, the number of distractors and the table of preferences alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep.floors import SLOTS, Floor, floor
from guidebench.suites.housekeep.items import OBJECTS, TASKS
from guidebench.suites.housekeep.preferences import Preferences

SALT = 4_711
"""Entropy of start places."""
NUMBER = {name: number for number, name in enumerate(OBJECTS)}
FEWEST, MOST = 8, 16
"""Receptacles of a room."""
CROWD = 4
"""Objects that start on one receptacle at most."""


class Layout(NamedTuple):
    """A start; arrays are by the number of an object in `OBJECTS`."""

    floor: Floor
    place: Array
    """Receptacle on which an object lies, int64 [24]; -1 for one that is not there."""
    slot: Array
    """Which of the receptacle's twelve places it takes, int64 [24]; -1 for one that is not there."""
    x: float
    y: float
    heading: float
    """Direction in radians: 0 along x, counter-clockwise."""


class Rules(NamedTuple):
    """What is correct in a task's room, by the table of preferences."""

    receptacles: tuple[str, ...]
    items: tuple[int, ...]
    """The items to be placed, by their number in `OBJECTS`."""
    correct: Array
    """Whether an object belongs on a receptacle, bool [24, B]; of objects that the table lacks, none."""
    spare: tuple[int, ...]
    """Objects that can be distractors: those with a correct and an incorrect receptacle that are no items."""


def rules(task: str, room: str, table: Preferences, distractors: int, count: int | None = None) -> Rules:
    """Return a task's rules for the first `count` of its items, or all. UserError for a table that lacks the room, an
    item or enough distractors, for an item that belongs on no receptacle of the room, or on every one, and for more
    items than the task has."""
    if count is not None and count > len(TASKS[task]):
        raise UserError(f"suite.items={count}, and task {task!r} has {len(TASKS[task])} items; set it to at most that")
    names = table.receptacles(room)
    context = f"in the room {room!r} of the table {table.source}"
    if not FEWEST <= len(names) <= MOST:
        raise UserError(f"there are {len(names)} receptacles {context}; choose a suite.room with {FEWEST} to {MOST}")
    votes = table.votes[room, names[0]]
    task_items = TASKS[task][:count]
    for item in task_items:
        correct_places = table.correct(room, item)
        if not correct_places or len(correct_places) == len(names):
            which, state = ("every receptacle", "misplaced") if correct_places else ("no receptacle", "placed")
            raise UserError(
                f"item {item!r} of task {task!r} belongs on {which} {context}, so it cannot be {state}; choose another "
                f"suite.room (of "
                f"{', '.join(table.rooms)}), another task or another suite.preferences"
            )
    correct = np.zeros((len(OBJECTS), len(names)), bool)
    for number, thing in enumerate(OBJECTS):
        if thing in votes:
            places = set(table.correct(room, thing))
            correct[number] = [name in places for name in names]
    spare = tuple(
        number
        for number, thing in enumerate(OBJECTS)
        if thing not in TASKS[task] and 0 < correct[number].sum() < len(names)
    )
    if len(spare) < distractors:
        raise UserError(
            f"suite.distractors={distractors}, but {len(spare)} other objects have a place {context}; set it to "
            f"at most {len(spare)}"
        )
    items = tuple(NUMBER[item] for item in task_items)
    alone = _alone(correct, items, items), _alone(correct, spare, items)
    for at, name in enumerate(names):  # with two possible places for each of at most 24 objects there is always room
        first, second = ([thing for thing, only in single_places.items() if only == at] for single_places in alone)
        if len(first) + min(distractors, len(second)) > SLOTS:
            raise UserError(
                f"suite.distractors={distractors}, and {OBJECTS[(first + second)[0]]!r} and "
                f"{len(first) + len(second) - 1} other objects can start on {name} only {context}, which holds {SLOTS} "
                f"objects; set it to at most {max(0, SLOTS - len(first))}, or choose another suite.preferences"
            )
    return Rules(names, items, correct, spare)


def _alone(correct: Array, things: Iterable[int], items: Collection[int]) -> dict[int, int]:
    """Return object -> receptacle, for those of `things` with a single possible start: for items, an incorrect
    receptacle; for other objects, a correct one."""
    possible = {thing: np.flatnonzero(~correct[thing] if thing in items else correct[thing]) for thing in things}
    return {thing: int(places[0]) for thing, places in possible.items() if len(places) == 1}


def layout(task: str, room_rules: Rules, distractors: int, number: int) -> Layout:
    """Return layout `number`: all items lie where they do not belong, distractors where they do."""
    plan = floor(room_rules.receptacles, number)
    random = np.random.default_rng([SALT, list(TASKS).index(task), number])
    place, slot = np.full(len(OBJECTS), -1), np.full(len(OBJECTS), -1)
    others = random.permutation(room_rules.spare)[:distractors].tolist()
    load = [0] * len(room_rules.receptacles)
    alone = _alone(room_rules.correct, (*room_rules.items, *others), room_rules.items)
    reserved = Counter(alone.values())  # slots for objects that have no other place
    for thing in (*room_rules.items, *others):
        is_allowed = room_rules.correct[thing] if thing in others else ~room_rules.correct[thing]
        if thing in alone:
            reserved[alone[thing]] -= 1
        room = [at for at in np.flatnonzero(is_allowed).tolist() if load[at] + reserved[at] < SLOTS]
        chosen = _choose([at for at in room if load[at] < CROWD] or room, random)
        place[thing], slot[thing] = chosen, load[chosen]
        load[chosen] += 1
    x, y = plan.free[random.integers(len(plan.free))].tolist()
    return Layout(plan, place, slot, x, y, float(random.uniform(0, 2 * math.pi)))


def _choose(choices: Sequence[int], random: np.random.Generator) -> int:
    return choices[int(random.integers(len(choices)))]
