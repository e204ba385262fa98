"""What any suite on MuJoCo shares: a simulation's exact state, and frames drawn from snapshots."""

from __future__ import annotations

import importlib.util
import os

from guidebench.harness.errors import UserError


def need(package: str, what: str) -> None:
    """UserError naming the extra if `package`, which `what` needs, is not installed. To be called before the package is
    imported: under `MUJOCO_GL=osmesa` MuJoCo loads Mesa at once."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{what} needs the package {package}: pip install 'guidebench[mujoco]'")
    if os.environ.get("MUJOCO_GL", "").lower() == "osmesa":
        from guidebench.suites.mujoco import gl

        gl.before_mesa()
