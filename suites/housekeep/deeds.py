"""What an agent does with things, as a verb and nouns: the names, and what an observation shows as possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from guidebench.harness.capabilities import Forms
from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep import ACTIONS, NUMBERS
from guidebench.suites.housekeep.floors import AIM, REACH
from guidebench.suites.housekeep.items import OBJECTS
from guidebench.suites.housekeep.words import plain

GRAB_RELEASE = ACTIONS.index("grab or release")


def grab(thing: int) -> str:
    """Return the deed of grabbing an object, by its number in `OBJECTS`.

    >>> grab(0)
    'grab spatula'
    """
    return f"grab {plain(OBJECTS[thing])}"


def put(thing: int, receptacle: str) -> str:
    """Return the deed of releasing an object on a receptacle, or in it."""
    return f"put {plain(OBJECTS[thing])} on {receptacle}"


def names(receptacles: Sequence[str]) -> tuple[str, ...]:
    """Return all deeds in a room with these receptacles."""
    things = range(len(OBJECTS))
    return (*map(grab, things), *(put(thing, at) for thing, at in itertools.product(things, receptacles)))


def forms(receptacles: Sequence[str]) -> Forms:
    """Return the deeds of `names` as two patterns, with the words that each placeholder stands for."""
    stands = {"OBJECT": tuple(map(plain, OBJECTS)), "RECEPTACLE": tuple(receptacles)}
    return Forms(("grab OBJECT", "put OBJECT on RECEPTACLE"), stands)


def doable(observation: Array, receptacles: Sequence[str]) -> list[dict[str, int]]:
    """Return, for each record of observations [n], the deed that GRAB_RELEASE would do and its action number; {} for
    none. It concerns, of the things in reach, the one closest to the gaze, at an angle of at most 15 degrees.

    This is the rule of `HousekeepTask.aimed`, except that a full receptacle is passed over there, which observations do
    not show. With at most 12 objects in a task's room, as with the default number of distractors, no receptacle is ever
    full.
    """
    pitch = observation["pose"][:, 2].astype(float)
    aims = {kind: _aimed(observation[kind], pitch).tolist() for kind in ("objects", "receptacles")}
    possible: list[dict[str, int]] = []
    for held, thing, receptacle in zip(observation["held"][:, 0].tolist(), *aims.values(), strict=True):
        if not held:
            possible.append({grab(thing): GRAB_RELEASE} if thing >= 0 else {})
        else:
            possible.append({put(held - 1, receptacles[receptacle]): GRAB_RELEASE} if receptacle >= 0 else {})
    return possible


def _aimed(numbers: Array, pitch: Array) -> Array:
    """Return the index of the thing in the gaze and within reach, int [n], or -1 for none. `numbers`: float32 [n,
    things·5]; `pitch`: angle of the camera in radians, float [n]."""
    in_view, distance, sine, cosine, elevation = np.moveaxis(
        numbers.reshape(len(numbers), -1, NUMBERS).astype(float), 2, 0
    )
    del sine  # the angle does not depend on the side
    level, tilt = np.cos(pitch)[:, None], np.sin(pitch)[:, None]
    angle = level * np.cos(elevation) * cosine + tilt * np.sin(elevation)
    angle[(in_view == 0) | (distance > REACH)] = -2
    best = angle.argmax(1)
    return np.where(np.take_along_axis(angle, best[:, None], 1)[:, 0] >= math.cos(AIM), best, -1)
