"""The description of a world of OGBench's ManipSpace environments."""

from __future__ import annotations

import warnings
from typing import Any

import mujoco

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # dm_control looks for a display, which is not needed here
    from ogbench.manipspace import mjcf_utils


def spec_of(env: Any) -> mujoco.MjSpec:
    """Return the description of an environment's world, which has been reset, to be changed before compilation."""
    mjcf = env._mjcf_model
    return mujoco.MjSpec.from_string(mjcf_utils.to_string(mjcf), assets=mjcf_utils.get_assets(mjcf))
