"""Shared by suites on MuJoCo: a simulation's exact state, and frames drawn from snapshots."""

from __future__ import annotations

import importlib.util

from guidebench.harness import extras
from guidebench.suites.mujoco import gl

gl.guard()


def need(package: str, needed_by: str) -> None:
    """Raise UserError with the extra to install if `package`, which `needed_by` needs, is missing, and for values of
    MUJOCO_GL with which MuJoCo cannot be imported, or was imported too early (`gl.before_mujoco`)."""
    if importlib.util.find_spec(package) is None:
        raise extras.missing(f"{needed_by} needs the package {package}", "mujoco")
    gl.before_mujoco()
