"""How each kind of receptacle and each object looks in a picture: its colour, its name, or a pattern."""

from __future__ import annotations

import colorsys
from typing import NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep.items import OBJECTS
from guidebench.suites.housekeep.snapshots import KINDS

KIND = len(KINDS)
"""Number of the first object among all looks, which are the kinds of receptacles and then the objects."""
FLOOR, WALL, CEILING = (150, 140, 125), (214, 214, 206), (240, 240, 240)
PATCHES = 8
"""Patches along a pattern's side."""


class Looks(NamedTuple):
    """The looks of the 32 kinds of receptacles and the 24 objects."""

    colours: Array
    """uint8 [56, 3]."""
    names: tuple[str, ...]
    """What is written on it; "" for nothing."""
    patterns: Array | None = None
    """uint8 [56, 8, 8, 3] instead of the colour on each face, by its two coordinates; None for plain colours."""


def standard() -> Looks:
    """Return looks in which each kind has its name and a colour of its own, dull for receptacles and bright for
    objects."""
    count = KIND + len(OBJECTS)
    colours = np.zeros((count, 3), np.uint8)
    for number in range(count):
        hue = number * 0.618034 % 1.0
        dull = number < KIND
        rgb = colorsys.hsv_to_rgb(hue, 0.35 if dull else 0.95, (0.65 if dull else 1.0) - 0.15 * (number % 3))
        colours[number] = [round(255 * channel) for channel in rgb]
    return Looks(colours, (*KINDS, *(name.replace("_", " ") for name in OBJECTS)))
