"""Frames of the table from snapshots. Frames of quality `fast` have an arm of coarse meshes."""

from __future__ import annotations

import functools
from dataclasses import replace

import mujoco

from guidebench.harness.interfaces import Drawer
from guidebench.suites.bin_sorting import CALIBRATED, SIDE, BinDrawing, dynamics
from guidebench.suites.bin_sorting.task import DRAWN, SNAPSHOT
from guidebench.suites.mujoco import perturbations
from guidebench.suites.mujoco.cameras import BOTH
from guidebench.suites.mujoco.decimation import decimate
from guidebench.suites.mujoco.drawing import Change, ModelDrawer, SideBySide

ROWS = {"geom_rgba": DRAWN}
ARM = 2
"""Group of the visual geoms of arm and gripper: 193,000 faces."""
CELL = 0.007
"""Width of the cells in which their vertices are merged, metres; 13,000 faces are left in the model."""
WALLS = tuple(f"wall_{axis}{side}" for axis in "01" for side in "+-")
EXCHANGED = (
    ("geom:block_0", "geom:block_1"),
    ("geom:block_1", "geom:block_2"),
    *((f"geom:left_{part}", f"geom:right_{part}") for part in ("floor", *WALLS)),
)
"""Pairs that swap appearance under `sprite_swap`: every block gets another's colour, and each bin the other's."""


def drawer(how: BinDrawing) -> Drawer:
    """Return a drawer of frames [L, size, size, 3], or [L, size, 2 size, 3] of both cameras; UserError if there is no
    OpenGL."""
    if how.camera == BOTH:
        return SideBySide(*(drawer(replace(how, camera=camera)) for camera in CALIBRATED))  # type: ignore[arg-type]
    model, change = dynamics.model(), None
    if how.perturbation == "sprite_swap":
        change = perturbations.exchange(EXCHANGED)
    elif how.perturbation == "texture":
        model, change = perturbations.texture(dynamics.spec(), how.seed), perturbations.turned
    return draw_model(model, how.camera, how.size, how.quality == "full", change=change)


def draw_model(
    model: mujoco.MjModel,
    camera: str,
    size: int,
    full: bool = False,
    hidden: tuple[int, ...] = (),
    change: Change | None = None,
) -> ModelDrawer:
    """Return a drawer of this model, which unless `full` is changed to one with coarse meshes."""
    if not full:
        decimate(model, CELL, (ARM,))
    return ModelDrawer(model, SNAPSHOT, camera, (size, size), rows=ROWS, full=full, hidden=hidden, change=change)


@functools.cache
def shared(camera: str) -> Drawer:
    """Return this process's drawer of the images that agents observe."""
    return drawer(BinDrawing(size=SIDE, camera=camera))  # type: ignore[arg-type]
