"""Colours, places and the instructions that name them."""

from __future__ import annotations

SORTED = ("red", "green", "blue")
"""Colours of the blocks that are sorted: of each colour one block."""
OTHERS = ("yellow", "purple", "orange")
"""Colours of the blocks of the task `other`."""
COLOURS = (*SORTED, *OTHERS)
RGBA = {
    "red": (0.86, 0.16, 0.16, 1.0),
    "green": (0.10, 0.62, 0.18, 1.0),
    "blue": (0.16, 0.32, 0.88, 1.0),
    "yellow": (0.88, 0.82, 0.10, 1.0),
    "purple": (0.52, 0.16, 0.72, 1.0),
    "orange": (0.95, 0.50, 0.08, 1.0),
}
SIDES = ("near", "far", "left", "right")
"""Parts of the tray, as the arm sees them, to which the task `other` moves a block."""
PLACES = ("left bin", "right bin", "tray", *(f"{side} side" for side in SIDES))
"""Where an instruction says that a block is to be."""


def colours(task: str) -> tuple[str, ...]:
    """Return the colours of a task's blocks, indexed by the block's number."""
    return OTHERS if task == "other" else SORTED


def belongs(colour: str) -> str:
    """Return the place of a sorted block: red and blue in the left bin, green in the right one."""
    return PLACES[SORTED.index(colour) % 2]


def instruction(colour: str, place: str, origin: str) -> str:
    """Return the instruction to bring the block of a colour to a place; `origin` is the bin in which it lies, or ""."""
    if place in PLACES[:2]:
        return f"put the {colour} block into the {place}"
    if place == "tray":
        return f"take the {colour} block out of the {origin} bin and put it on the tray"
    return f"move the {colour} block to the {place} of the tray"
