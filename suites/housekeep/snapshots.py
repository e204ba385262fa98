"""What a picture of a room shows, as bytes: boxes, objects and the agent's pose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.housekeep.floors import Floor
from guidebench.suites.housekeep.furniture import FURNITURE
from guidebench.suites.housekeep.items import OBJECTS

BOXES = 16
"""Receptacles that a snapshot has room for."""
KINDS = tuple(FURNITURE)
LAYOUT = np.dtype(
    [
        ("count", "u1"),
        ("kinds", "u1", (BOXES,)),
        ("held", "u1"),
        ("there", "u1", (len(OBJECTS),)),
        ("size", "<f4", (2,)),
        ("pose", "<f4", (4,)),
        ("low", "<f4", (BOXES, 3)),
        ("high", "<f4", (BOXES, 3)),
        ("points", "<f4", (len(OBJECTS), 3)),
    ]
)


class Scene(NamedTuple):
    """What one picture shows; B receptacles and n objects in the room."""

    kinds: Array
    """Kind of each receptacle, its number in `KINDS`, int [B]."""
    low: Array
    """Lowest corners of the receptacles in metres, float32 [B, 3]."""
    high: Array
    things: Array
    """Objects in the room, their number in `OBJECTS`, int [n]."""
    visible: Array
    """Whether the camera may see them, bool [n]: not in closed furniture that is not looked into."""
    points: Array
    """Where they lie, float32 [n, 3]."""
    held: int
    """The object in the agent's hand, its number in `OBJECTS`; -1 for none."""
    size: tuple[float, float]
    pose: tuple[float, float, float, float]
    """The agent's x and y in metres, heading and pitch in radians."""


def pack(
    floor: Floor,
    points: Array,
    place: Array,
    shut: Array,
    held: int,
    at: tuple[float, float],
    heading: float,
    pitch: float,
) -> Array:
    """Return a scene's snapshot, uint8 [738]. `points`: float32 [24, 3] where objects lie; `place`: int [24], -1 for
    objects that lie nowhere; `shut`: bool [24], those in closed furniture that is not looked into."""
    saved = np.zeros((), LAYOUT)
    count = len(floor.names)
    saved["count"], saved["held"] = count, held + 1
    saved["kinds"][:count] = [KINDS.index(name) for name in floor.names]
    there = place >= 0
    saved["there"] = there * (1 + shut)
    saved["size"], saved["pose"] = floor.size, (*at, heading, pitch)
    saved["low"][:count], saved["high"][:count] = floor.boxes[0].T, floor.boxes[1].T
    saved["points"] = np.where(there[:, None], points, 0)
    return np.frombuffer(saved.tobytes(), np.uint8)


def unpack(snapshot: Array) -> Scene:
    """Return the scene of a snapshot, uint8 [738]; UserError for other bytes."""
    if snapshot.dtype != np.uint8 or snapshot.shape != (LAYOUT.itemsize,):
        raise UserError(
            f"a snapshot of {snapshot.dtype} {list(snapshot.shape)} is not one of Housekeep, which takes uint8 "
            f"[{LAYOUT.itemsize}]"
        )
    saved = np.frombuffer(snapshot.tobytes(), LAYOUT)[0]
    count, things = int(saved["count"]), np.flatnonzero(saved["there"])
    kinds = saved["kinds"][:count].astype(int)
    if count > BOXES or (kinds >= len(KINDS)).any() or saved["held"] > len(OBJECTS):
        raise UserError("a snapshot of Housekeep holds receptacles or objects that there are not; it is damaged")
    size, pose = saved["size"].tolist(), saved["pose"].tolist()
    return Scene(
        kinds, saved["low"][:count], saved["high"][:count], things, saved["there"][things] == 1,
        saved["points"][things], int(saved["held"]) - 1, (size[0], size[1]), (pose[0], pose[1], pose[2], pose[3]),
    )  # fmt: skip
