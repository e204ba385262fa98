"""What a picture of Crafter shows, as bytes: cells, inventory, light, and the random stream of its noise.

Packing and reading need neither the package nor a world, so a process that draws gets nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array

ITEMS = 16
"""Entries of the inventory."""
WORDS = 624
"""Words of the state of the random stream, a Mersenne twister."""


class Scene(NamedTuple):
    """What one picture shows."""

    materials: Array
    """Codes of materials, uint8 [width, height] (`guidebench.suites.crafter.game.MATERIALS`)."""
    things: Array
    """Codes of objects, uint8 [width, height] (`guidebench.suites.crafter.game.OBJECT_PICTURES`)."""
    inventory: bytes
    """Amount of each item."""
    sleeping: bool
    daylight: float
    noise: tuple[Array, int] | None
    """Words, uint32 [624], and position of the stream that the noise is drawn from; None by day."""


def layout(width: int, height: int) -> np.dtype[np.void]:
    """Return the layout of a snapshot of a view of so many cells."""
    return np.dtype(
        [
            ("grid", "u1", (2,)),
            ("sleeping", "u1"),
            ("night", "u1"),
            ("position", "<u4"),
            ("daylight", "<f8"),
            ("words", "<u4", (WORDS,)),
            ("inventory", "u1", (ITEMS,)),
            ("materials", "u1", (width, height)),
            ("things", "u1", (width, height)),
        ]
    )


def pack(scene: Scene) -> Array:
    """Return a scene's snapshot, uint8 [2528 + 2 width height]."""
    saved = np.zeros((), layout(*scene.materials.shape))
    saved["grid"] = scene.materials.shape
    saved["sleeping"], saved["daylight"] = scene.sleeping, scene.daylight
    if scene.noise is not None:
        saved["night"], (saved["words"], saved["position"]) = 1, scene.noise
    saved["inventory"] = np.frombuffer(scene.inventory, np.uint8)
    saved["materials"], saved["things"] = scene.materials, scene.things
    return np.frombuffer(saved.tobytes(), np.uint8)


def unpack(snapshot: Array) -> Scene:
    """Return the scene of a snapshot, uint8 [n]; UserError for other bytes. A last byte that says which of several
    tasks is played is passed over."""
    width, height = (int(side) for side in snapshot[:2])
    expected = layout(width, height)
    if snapshot.dtype != np.uint8 or snapshot.shape not in ((expected.itemsize,), (expected.itemsize + 1,)):
        raise UserError(
            f"a snapshot of {snapshot.dtype} {list(snapshot.shape)} is not one of Crafter: a view of {width}x{height} "
            f"cells takes uint8 [{expected.itemsize}]"
        )
    saved = np.frombuffer(snapshot.tobytes(), expected, 1)[0]
    return Scene(
        saved["materials"],
        saved["things"],
        saved["inventory"].tobytes(),
        bool(saved["sleeping"]),
        float(saved["daylight"]),
        (saved["words"], int(saved["position"])) if saved["night"] else None,
    )
