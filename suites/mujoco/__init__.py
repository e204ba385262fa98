"""Shared by suites on MuJoCo: a simulation's exact state, and frames drawn from snapshots."""

from __future__ import annotations

import importlib.util
import os

from guidebench.harness.errors import UserError


def need(package: str, what: str) -> None:
    """Raise UserError with the extra to install if `package`, which `what` needs, is missing. Call it before importing
    the package: under `MUJOCO_GL=osmesa` MuJoCo loads Mesa at import."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{what} needs the package {package}: pip install 'guidebench[mujoco]'")
    if os.environ.get("MUJOCO_GL", "").lower() == "osmesa":
        from guidebench.suites.mujoco import gl

        gl.before_mesa()
