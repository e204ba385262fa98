"""The exact state of a MuJoCo simulation, sufficient to continue it bit for bit, contacts included, in any process."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State

INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION


def state(model: mujoco.MjModel, data: mujoco.MjData, fields: Sequence[str] = ()) -> dict[str, Array]:
    """Return the complete state of the simulation: "integration", float64 [mj_stateSize], and copies of those `fields`
    of the model that the environment writes to (`dof_damping`, `site_pos`, …).

    It is exact if the environment leaves derived data (positions of sites, contacts) as `mj_forward` computes them from
    this state. An environment that reads them as a step left them instead gets what `load` computes.
    """
    integration = np.empty(mujoco.mj_stateSize(model, INTEGRATION))
    mujoco.mj_getState(model, data, integration, INTEGRATION)
    return {"integration": integration, **{name: getattr(model, name).copy() for name in fields}}


def load(model: mujoco.MjModel, data: mujoco.MjData, saved: State) -> None:
    """Restore `model` and `data` from `saved`; UserError, before any change, if the state is another model's.

    Derived data are recomputed, which overwrites the solver's warm start, so the state is set again afterwards.
    """
    integration = np.ascontiguousarray(saved["integration"], np.float64)
    fields = {name: getattr(model, name) for name in saved if name != "integration"}
    shapes = {"integration": (mujoco.mj_stateSize(model, INTEGRATION),)}
    shapes |= {name: field.shape for name, field in fields.items()}
    for name, shape in shapes.items():
        if np.shape(saved[name]) != shape:
            raise UserError(
                f"this state's {name} has the shape {np.shape(saved[name])}, the model's {shape}: it was saved from "
                f"another model; load it with the task and MuJoCo that it comes from (this is {mujoco.__version__})"
            )
    for name, field in fields.items():
        field[:] = saved[name]
    mujoco.mj_setState(model, data, integration, INTEGRATION)
    mujoco.mj_forward(model, data)
    mujoco.mj_setState(model, data, integration, INTEGRATION)
