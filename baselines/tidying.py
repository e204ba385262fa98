"""What hand-written substitutes for language models make of Housekeep's sentences: what lies where, where it belongs,
and the way to it.

`BELONGS` and `HEIGHTS` were written from common sense, without the suite's tables: a language model would bring such
knowledge. The tilt of the head for a height is that of a camera at `EYE`. No substitute knows a way around furniture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

NEAR = 1.5
"""Distance in metres up to which something can be grabbed."""
BELONGS: Mapping[str, tuple[str, ...]] = {
    "apple": ("fridge", "table", "counter"),
    "blender jar": ("counter", "bottom cabinet"),
    "bowl": ("top cabinet", "bottom cabinet", "dishwasher"),
    "butter dish": ("fridge",),
    "candle holder": ("table", "shelf", "chest"),
    "chopping board": ("counter", "bottom cabinet"),
    "dietary supplement": ("top cabinet", "shelf"),
    "dishtowel": ("counter", "sink", "oven"),
    "fork": ("bottom cabinet", "dishwasher", "table"),
    "knife": ("counter", "bottom cabinet"),
    "lamp": ("table", "shelf", "chest"),
    "mug": ("top cabinet", "coffee machine", "shelf"),
    "mustard bottle": ("fridge", "top cabinet"),
    "pan": ("stove", "cooktop", "bottom cabinet"),
    "peppermint": ("top cabinet", "shelf"),
    "plant": ("table", "shelf", "counter"),
    "plate": ("top cabinet", "dishwasher", "table"),
    "pressure cooker": ("stove", "cooktop", "bottom cabinet"),
    "salt shaker": ("table", "counter", "top cabinet"),
    "soap dispenser": ("sink",),
    "sparkling water": ("fridge",),
    "spatula": ("counter", "bottom cabinet", "top cabinet"),
    "sponge": ("sink",),
    "teapot": ("stove", "cooktop", "counter", "top cabinet"),
}
"""Housekeep's objects -> receptacles on which they belong."""
EYE = 1.5
"""Height in metres from which a person looks."""
HEIGHTS: Mapping[str, float] = {
    "bottom cabinet": 0.4,
    "carpet": 0.0,
    "chair": 0.5,
    "chest": 0.5,
    "coffee machine": 1.0,
    "cooktop": 0.9,
    "counter": 0.9,
    "dishwasher": 0.4,
    "fridge": 1.0,
    "microwave": 1.1,
    "oven": 0.5,
    "shelf": 1.2,
    "sink": 0.9,
    "stove": 0.9,
    "table": 0.8,
    "top cabinet": 1.7,
}
"""Receptacle -> height in metres at which things lie on it."""
TILT = 10.0
"""Degrees from the wanted tilt of the head up to which a thing is in the gaze."""
PLACE = r"\(([0-9.]+) m (ahead|left|right)\)"
"""Distance and direction of a thing in Housekeep's sentences."""


def tidied(state: str) -> bool:
    """Return whether sentences are Housekeep's."""
    return "you hold " in state


def unusual(name: str, at: str) -> bool:
    """Return whether an object of `BELONGS` lies elsewhere than where it belongs.

    >>> unusual("apple", "stove"), unusual("apple", "fridge"), unusual("unicorn", "stove")
    (True, False, False)
    """
    return at not in BELONGS.get(name, (at,))


class Spot(NamedTuple):
    """Where a receptacle, or a thing on it, is seen."""

    metres: float
    side: str
    """`ahead`, `left` or `right`."""
    name: str
    """Name of the receptacle."""


class Room(NamedTuple):
    """The content of Housekeep's sentences about a state."""

    receptacles: tuple[Spot, ...]
    objects: tuple[tuple[str, Spot], ...]
    """Name and place of each object in view, with the receptacle that it lies on."""
    held: str
    """Name of what is held, or ""."""
    tilt: float
    """Of the head in degrees, up positive."""

    @classmethod
    def read(cls, state: str) -> Room:
        """Return what the sentences of a state say.

        >>> Room.read("you see sink (0.9 m left). mug on sink (1.0 m left). you hold nothing. you look 20 degrees up.")
        Room(receptacles=(Spot(metres=0.9, side='left', name='sink'),), objects=(('mug', Spot(metres=1.0, side='left',
        name='sink')),), held='', tilt=20.0)
        """
        receptacles = re.findall(rf"([a-z ]+) {PLACE}", _part(state, r"^you see (.+?\))\."))
        lying = re.findall(rf"(?:^|\. )([a-z ]+?) (?:on|in) ([a-z ]+) {PLACE}", state)
        object_in_hand = _part(state, r"you hold (.+?)\.")
        degrees, way = (re.findall(r"you look (\d+) degrees (up|down)", state) or [("0", "up")])[0]
        return cls(
            tuple(Spot(float(metres), side, at.strip()) for at, metres, side in receptacles),
            tuple((name, Spot(float(metres), side, at.strip())) for name, at, metres, side in lying),
            "" if object_in_hand == "nothing" else object_in_hand,
            float(degrees) if way == "up" else -float(degrees),
        )

    def way(self, spot: Spot) -> str:
        """Return the next action towards grabbing the thing at a spot, or releasing something there: turn to it, walk
        to within `NEAR`, tilt the head to its height, `grab or release`; the first of these that is needed."""
        if spot.side != "ahead":
            return f"turn {spot.side}"
        if spot.metres > NEAR:
            return "move forward"
        needed = math.degrees(math.atan2(HEIGHTS.get(spot.name, EYE) - EYE, spot.metres))
        if abs(needed - self.tilt) > TILT:
            return "look up" if needed > self.tilt else "look down"
        return "grab or release"


def _part(text: str, pattern: str) -> str:
    """Return the group of a pattern in a text, or ""."""
    match = re.search(pattern, text)
    return match[1] if match else ""
