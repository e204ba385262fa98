"""What the agent sees and holds, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guidebench.suites.housekeep.items import OBJECTS

if TYPE_CHECKING:
    from guidebench.suites.housekeep.task import HousekeepTask

LONGEST = 2048
"""Bytes that hold the longest text: a room of sixteen receptacles and all objects in view at once."""
AHEAD = 0.26
"""Radians to either side that are called ahead: 15 degrees."""


def plain(name: str) -> str:
    """Return the name of an object in sentences."""
    return name.replace("_", " ")


def direction(aside: float, distance: float) -> str:
    """Return a direction and a distance in words.

    >>> where(0.5, 1.26), where(-0.1, 2.0)
    ('1.3 m left', '2.0 m ahead')
    """
    return f"{distance:.1f} m {'ahead' if abs(aside) <= AHEAD else 'left' if aside > 0 else 'right'}"


def text(task: HousekeepTask) -> str:
    """Return sentences in lower case: each receptacle in view with its direction, each object in view with the
    receptacle that it lies on, what is held, and how the head is tilted."""
    objects, receptacles = task.visible()
    size = len(OBJECTS)
    told = []
    if receptacles:
        named = [f"{task.floor.names[at]} ({direction(*task.side(size + at))})" for at in receptacles]
        told.append(f"you see {', '.join(named)}.")
    for thing in objects:
        at = int(task.place[thing])
        told.append(
            f"{plain(OBJECTS[thing])} {'in' if task.floor.inside[at] else 'on'} {task.floor.names[at]} "
            f"({direction(*task.side(thing))})."
        )
    told.append(f"you hold {plain(OBJECTS[task.held]) if task.held >= 0 else 'nothing'}.")
    if task.tilts:
        told.append(f"you look {abs(task.tilts) * 10} degrees {'up' if task.tilts > 0 else 'down'}.")
    return " ".join(told) if receptacles or objects else " ".join(["you see nothing.", *told])
