"""Scripted policies: functions of the world's state alone, so a restored world is continued alike.

The gripper goes over the block, turns to its sides, descends, closes, lifts, goes over the place, descends and opens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.bin_sorting import layout
from guidebench.suites.bin_sorting.dynamics import REACH, TURN, Dynamics

OVER = 0.12
"""Height at which the gripper travels, metres."""
LOW = 0.08
"""Height above which nothing on the ground is in the way of an open gripper, or of a block that it carries."""
NEAR = 0.012
"""Distance from a block's axis at which the gripper descends to it, metres."""
ALIGNED = 0.15
"""Angle to the block's sides at which it descends, radians."""
GRIPPED = 0.30
"""Opening (0 open, 1 closed) from which the fingers touch a block."""
FREE = 0.15
"""Opening up to which they are clear of a block that they have released."""
FINGER = 0.05
"""Distance of an open finger's outside from the gripper's axis, metres."""
GAIN = 1.4
"""Commanded motion as a multiple of the remaining distance: within one action the arm falls short of its target."""


class Aim(NamedTuple):
    """Target of a scripted policy: a block, and where to release it."""

    block: int
    """Number of the block to grasp."""
    place: Array
    """Where to release it (x, y)."""
    beside: Array = np.zeros(2)
    """Offset (x, y) from the block at which the gripper closes; the failure `miss` has one."""


def act(world: Dynamics, aim: Aim, done: bool) -> Array:
    """Return the scripted policy's action in the current state, float32 [7] in [-1, 1]. `done`: whether the block
    already lies at its destination, so that the gripper only has to rise."""
    tip, block = world.tip, world.poses[aim.block, :3]
    at = block[:2] + aim.beside
    off = at - tip[:2]
    is_at_block = np.linalg.norm(off) < 2 * NEAR and abs(tip[2] - block[2]) < 2 * NEAR
    turn = _turn(world, aim.block)
    if world.closing and is_at_block:
        if world.opening < GRIPPED:
            return _action(world, tip, 0.0, -1.0)
        off = aim.place - at
        if np.linalg.norm(off) > (NEAR if tip[2] > LOW else 3 * NEAR):  # else it would rise again over a drift
            height = OVER if tip[2] > LOW else tip[2] + OVER
            return _action(world, np.append(tip[:2] + (off if tip[2] > LOW else 0), height), 0.0, -1.0)
        if tip[2] > layout.BLOCK + 0.02:
            return _action(world, np.append(tip[:2] + off, layout.BLOCK + 0.01), 0.0, -1.0)
        return _action(world, tip, 0.0, 1.0)
    if world.closing:
        return _action(world, tip, 0.0, 1.0)
    up = tip + np.array([0, 0, OVER])
    if is_at_block and done:
        return _action(world, tip if world.opening > FREE else up, 0.0, 1.0)
    if done:
        return _action(world, np.append(layout.HOME[:2], OVER) if tip[2] > LOW else up, 0.0, 1.0)
    if np.linalg.norm(off) < NEAR and abs(turn) < ALIGNED:
        if abs(tip[2] - block[2]) < NEAR:
            return _action(world, tip, 0.0, -1.0)
        return _action(world, np.append(at, block[2]), turn, 1.0)
    return _action(world, np.append(at if tip[2] > LOW else tip[:2], OVER), turn, 1.0)


def free(poses: Array, block: int, centre: Array, half: Array, near: Array) -> Array:
    """Return a place (x, y) for a block on a 5 by 5 grid in a rectangle: the nearest to `near` among places apart from
    the other blocks, or else the place farthest from them."""
    steps = np.linspace(-1, 1, 5)
    grid = centre + np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2) * half
    others = np.delete(poses[:, :2], block, axis=0)
    gaps = np.linalg.norm(grid[:, None] - others, axis=-1).min(axis=1)
    separate = np.flatnonzero(gaps >= layout.APART)
    if not len(separate):
        return np.asarray(grid[gaps.argmax()])
    return np.asarray(grid[separate[np.linalg.norm(grid[separate] - near, axis=1).argmin()]])


def _turn(world: Dynamics, number: int) -> float:
    """Return the rotation about the vertical, radians, to the sides of a block between which the open fingers fit; the
    smaller where both pairs do."""
    poses = world.poses
    sides = yaw(poses[number, 3:]) + np.array([0, np.pi / 2])
    turns = (sides - world.angles[2] + np.pi / 2) % np.pi - np.pi / 2
    block, others = poses[number, :2], np.delete(poses[:, :2], number, axis=0)
    worst = []
    for side in sides:
        across = np.array([-np.sin(side), np.cos(side)]) * FINGER
        fingers = np.stack([block + across, block - across])
        gap = np.linalg.norm(fingers[:, None] - others, axis=-1).min() - layout.BLOCK
        for centre in layout.BINS.values():
            inside = (layout.BIN_HALF - np.abs(fingers - centre)).min(axis=1)
            if (np.abs(block - centre) <= layout.BIN_HALF).all():
                gap = min(gap, inside.min())
        worst.append(min(gap, 0.015))
    return float(turns[np.lexsort((np.abs(turns), -np.array(worst)))[0]])


def yaw(quaternion: Array) -> float:
    """Return the yaw, radians, of a block's side that is nearest to horizontal, whichever of its faces is up."""
    w, x, y, z = quaternion
    first = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)])
    second = np.array([2 * (x * y - w * z), 1 - 2 * (x * x + z * z)])
    longer = first if first @ first > second @ second else second
    return float(np.arctan2(longer[1], longer[0]))


def _action(world: Dynamics, position: Array, yaw: float, grip: float) -> Array:
    return action(world.tip, world.angles, position, yaw, grip)


def action(tip: Array, angles: Array, position: Array, yaw: float, grip: float) -> Array:
    """Return the action, float32 [7], that moves the gripper's tip [3] with the angles (roll, pitch, yaw) towards a
    position [3], turning by `yaw`, radians, and back to pointing down; `grip` opens above .5 and closes below -.5."""
    roll, pitch, _ = angles
    move = np.clip(GAIN * (position - tip) / REACH, -1, 1)
    command = np.array([*move, -roll / TURN, -pitch / TURN, yaw / TURN, grip])
    return np.asarray(np.clip(command, -1, 1), np.float32)
