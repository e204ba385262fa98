"""Where tray, bins and blocks are, in metres in the world's frame, whose origin is the foot of the arm."""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array

TRAY = np.array([0.42, 0.0])
TRAY_HALF = np.array([0.11, 0.12])
"""Centre and half extents (x, y) of the tray, an open sheet: a gripper that opens by 7 cm jams at walls."""
BINS = {"left": np.array([0.42, 0.24]), "right": np.array([0.42, -0.24])}
"""Centre of each bin; left and right as the arm sees them."""
BIN_HALF = np.array([0.085, 0.085])
"""Inner half extents of a bin."""
WALL = 0.004
"""Half thickness of a bin's walls."""
RIM = 0.025
"""Height of a bin's walls: the open gripper passes over them where it grasps a block in the bin."""
BLOCK = 0.02
"""Half the side of a block."""
FLOORED = 0.035
"""A block whose centre is below this height lies on the ground, on no other block and in no gripper."""
HOME = np.array([0.27, 0.0, 0.30])
"""Where the gripper is at the start of an episode: clear of the tray in both cameras."""
APART = 0.085
"""Least distance between the centres of two blocks in a layout, so that the open gripper fits between them."""
MARGIN = 0.025
"""Blocks are laid out this far inside the tray's edge, and of the walls' space that a grasp in a bin needs."""
GRASP = 0.035
"""Least distance of a block's centre from a bin's walls for a grasp; one nearer to them is out of reach."""


def on_tray(position: Array, margin: float = 0.0) -> bool:
    """Return whether a block at `position` [3] lies on the tray, `margin` inside its edge."""
    return bool(position[2] < FLOORED and (np.abs(position[:2] - TRAY) <= TRAY_HALF - margin).all())


def bin_of(position: Array, margin: float = 0.0) -> str:
    """Return the bin in which a block at `position` [3] lies, `margin` inside its walls, or ""."""
    inside = (name for name, centre in BINS.items() if (np.abs(position[:2] - centre) <= BIN_HALF - margin).all())
    return next(inside, "") if position[2] < FLOORED else ""


def reachable(position: Array) -> bool:
    """Return whether a block can be grasped: it lies on the tray, or in a bin away from its walls."""
    return on_tray(position) or bool(bin_of(position, GRASP))


def places(rng: np.random.Generator, count: int, taken: Array) -> Array:
    """Return places (x, y) of `count` blocks on the tray, float [count, 2], apart from each other and from `taken`
    [n, 2]; after 200 draws without success a place may be as near as the best of them."""
    spots = list(np.asarray(taken, float).reshape(-1, 2))
    for _ in range(count):
        candidates = TRAY + rng.uniform(-1, 1, (200, 2)) * (TRAY_HALF - MARGIN)
        others = np.array(spots).reshape(-1, 1, 2)
        gaps = np.linalg.norm(candidates - others, axis=-1).min(axis=0, initial=np.inf)
        enough = np.flatnonzero(gaps >= APART)
        spots.append(candidates[enough[0] if len(enough) else gaps.argmax()])
    return np.array(spots[len(spots) - count :]).reshape(count, 2)
