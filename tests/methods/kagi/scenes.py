"""Frames of two views: painted ones, whose contents are known, and real ones of bin_sorting."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.methods.kagi.questions import Candidates, WaypointQuestion

GRASP = [[0.38, 0.60], [0.40, 0.58], [0.42, 0.60], [0.40, 0.62], [0.40, 0.60]]
TARGET = [[0.10, 0.45], [0.20, 0.45], [0.10, 0.55], [0.20, 0.55], [0.15, 0.50]]
CANDIDATES = Candidates(GRASP, TARGET)
INSTRUCTION = "put the green block into the left bin"
ASKED = WaypointQuestion(INSTRUCTION, CANDIDATES)
PAINT = {"red": (220, 40, 40), "green": (30, 160, 50), "blue": (60, 100, 230), "orange": (240, 130, 20)}
TRAY, LEFT, RIGHT = (190, 160, 130), (210, 210, 210), (80, 80, 82)


def painted(blocks: Mapping[str, tuple[float, float, float]], size: int = 100, tray: bool = True) -> Array:
    """A frame [size, 2 * size, 3] of a dark table with blocks of a twentieth of its side at (u, v, h); from above a
    tray at u .33 to .67 and v .35 to .65 between two bins, from the side the tray at h .6 to .8."""
    frame = np.full((size, 2 * size, 3), (22, 26, 40), np.uint8)
    scale = size / 100

    def fill(left: float, top: float, right: float, bottom: float, colour: tuple[int, int, int]) -> None:
        frame[round(top * scale) : round(bottom * scale), round(left * scale) : round(right * scale)] = colour

    if tray:
        fill(33, 35, 67, 65, TRAY)
        fill(5, 37, 29, 63, LEFT)
        fill(71, 37, 95, 63, RIGHT)
        fill(133, 60, 167, 80, (100, 75, 55))
    for colour, (u, v, h) in blocks.items():
        fill(100 * u - 2.5, 100 * v - 2.5, 100 * u + 2.5, 100 * v + 2.5, PAINT[colour])
        fill(197.5 - 100 * u, 100 * h - 2.5, 202.5 - 100 * u, 100 * h + 2.5, PAINT[colour])
    return frame


@functools.cache
def drawer(size: int) -> Any:
    from guidebench.suites.bin_sorting import BinDrawing

    return BinDrawing(size=size, camera="both").spawn("forward")


def drawn(task: Any, size: int = 100) -> Array:
    """The two views of a task's present state, uint8 [size, 2 * size, 3]."""
    frame: Array = drawer(size)(task.snapshot()[None])[0]
    return frame
