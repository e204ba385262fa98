"""Shared by suites on MuJoCo: a simulation's exact state, and frames drawn from snapshots."""

from __future__ import annotations

import importlib.util

from guidebench.harness import extras


def need(package: str, what: str) -> None:
    """Raise UserError with the extra to install if `package`, which `what` needs, is missing, and for values of
    MUJOCO_GL with which MuJoCo cannot be imported. Call it before importing the package: under `MUJOCO_GL=osmesa`
    MuJoCo loads Mesa at import."""
    if importlib.util.find_spec(package) is None:
        raise extras.missing(f"{what} needs the package {package}", "mujoco")
    from guidebench.suites.mujoco import gl

    if gl.asked() == "osmesa":
        gl.before_mesa()
