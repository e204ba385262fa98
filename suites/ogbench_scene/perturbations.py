"""Frames whose objects mislead or mean nothing (as VLM-RB, app. F.3, has for MiniGrid); the scene moves as ever."""

from __future__ import annotations

from guidebench.suites.mujoco import perturbations
from guidebench.suites.mujoco.drawing import ModelDrawer
from guidebench.suites.ogbench_scene import dynamics
from guidebench.suites.ogbench_scene.drawing import drawer

EXCHANGED = (
    ("geom:object_0", "material:drawer_body"),
    ("material:window_body", "material:ur5e/robotiq/black"),
)
"""The cube looks like the drawer and the drawer like the cube; the window's frame is black and the gripper white."""
LOCKS = ("geom:btngeom_0", "geom:btngeom_1", "material:drawer_handle", "material:window_handle")
LOCKED, UNLOCKED = (0.96, 0.26, 0.33), (0.9, 0.9, 0.9)
"""What tells a lock, and its colours, which change places too: what is locked looks open."""


def swapped(size: int, full: bool = False) -> ModelDrawer:
    """Objects by each other's looks."""
    steps = perturbations.exchange(EXCHANGED), perturbations.invert(LOCKS, LOCKED, UNLOCKED)
    return drawer(size, full, change=lambda model: [step(model) for step in steps])


def textured(size: int, full: bool = False, seed: int = 0) -> ModelDrawer:
    """Every object, the arm too, under two-coloured noise that follows from `seed` alone; the floor stays."""
    model = perturbations.texture(dynamics.spec(), seed)
    return drawer(size, full, model=model, change=perturbations.turned)
