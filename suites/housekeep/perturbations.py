"""Pictures with misleading or meaningless looks; the room is not affected."""

from __future__ import annotations

import numpy as np

from guidebench.suites.housekeep.items import OBJECTS
from guidebench.suites.housekeep.looks import KIND, PATCHES, Looks, standard
from guidebench.suites.housekeep.snapshots import KINDS

INKS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
"""Colours of the patterns: each pattern uses one of these and its complement."""


def swapped() -> Looks:
    """Return looks in which every receptacle and every object has the colour and name of the next one in its list, so
    that a fridge is called loudspeaker and a mug chopping board."""
    looks = standard()
    order = [*np.roll(np.arange(KIND), -1), *(KIND + np.roll(np.arange(len(OBJECTS)), -1))]
    return Looks(looks.colours[order], tuple(looks.names[number] for number in order))


def textured(seed: int) -> Looks:
    """Return looks in which every receptacle and every object has a pattern of two-coloured noise determined by
    `seed`, the same in every picture, and no name."""
    random = np.random.default_rng(seed)
    count = len(KINDS) + len(OBJECTS)
    inks = INKS[random.integers(len(INKS), size=count)][:, None, None]
    patterns = np.where(random.integers(0, 2, (count, PATCHES, PATCHES, 1)), inks, 255 - inks).astype(np.uint8)
    return Looks(np.zeros((count, 3), np.uint8), ("",) * count, patterns)
