"""What any suite on MuJoCo shares: a simulation's exact state, and frames drawn from snapshots."""

from __future__ import annotations

import importlib.util

from harness.errors import UserError


def need(package: str, what: str) -> None:
    """UserError naming the extra if `package`, which `what` needs, is not installed."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{what} needs the package {package}: pip install 'guidebench[mujoco]'")
