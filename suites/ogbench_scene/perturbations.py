"""Frames in which objects mislead or are meaningless (following VLM-RB, app. F.3, for MiniGrid); the simulation is not
affected."""

from __future__ import annotations

from guidebench.suites.mujoco import perturbations
from guidebench.suites.mujoco.drawing import ModelDrawer
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.drawing import CAMERA, drawer

EXCHANGED = (
    ("geom:object_0", "material:drawer_body"),
    ("material:window_body", "material:ur5e/robotiq/black"),
)
"""Pairs that swap appearance: cube and drawer; the window's frame becomes black and the gripper white."""
LOCKS = ("geom:btngeom_0", "geom:btngeom_1", "material:drawer_handle", "material:window_handle")
LOCKED, UNLOCKED = (0.96, 0.26, 0.33), (0.9, 0.9, 0.9)
"""Objects that show a lock, and its two colours, which are swapped too: a locked object looks unlocked."""


def swapped(size: int, full: bool = False, camera: str = CAMERA) -> ModelDrawer:
    """Return a drawer that swaps the objects' appearances."""
    steps = perturbations.exchange(EXCHANGED), perturbations.invert(LOCKS, LOCKED, UNLOCKED)
    return drawer(size, full, change=lambda model: [step(model) for step in steps], camera=camera)


def textured(size: int, full: bool = False, seed: int = 0, camera: str = CAMERA) -> ModelDrawer:
    """Return a drawer with every object, including the arm, under two-coloured noise determined by `seed`; the floor is
    unchanged."""
    model = perturbations.texture(dynamics.spec(), seed)
    return drawer(size, full, model=model, change=perturbations.turned, camera=camera)
