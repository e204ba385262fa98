"""Restored MuJoCo simulations continue exactly, contacts included."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from guidebench.suites.mujoco.state import INTEGRATION, load, state  # noqa: E402
from tests.refusals import check_refused  # noqa: E402

PILE = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".05 0 .35"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos="0 .05 .6"><freejoint/><geom type="sphere" size=".1"/><site name="top" pos="0 0 .1"/></body>
    <body pos=".4 0 .3"><joint name="hinge" axis="0 1 0" damping="1"/><geom type="capsule" size=".03 .2"/></body>
    <body mocap="true" pos="0 0 2"><geom size=".01"/></body>
  </worldbody>
  <actuator><motor joint="hinge" gear="5"/></actuator>
</mujoco>
"""


def pile():
    model = mujoco.MjModel.from_xml_string(PILE)
    return model, mujoco.MjData(model)


def step_forward(model, data, seed, steps):
    """Step under random control and update derived data after each step; return positions, velocities, sites and warm
    starts, [steps, …]."""
    draw, states = np.random.default_rng(seed), []
    for _ in range(steps):
        data.ctrl[:] = draw.uniform(-1, 1)
        mujoco.mj_step(model, data, nstep=5)
        mujoco.mj_forward(model, data)
        states.append(np.concatenate([data.qpos, data.qvel, data.site_xpos.ravel(), data.qacc_warmstart]))
    return np.stack(states)


def test_continuations_in_contact_are_bit_identical():
    model, data = pile()
    twin = pile()
    identical = in_contact = 0
    for number in range(10):
        step_forward(model, data, number, 3)
        in_contact += data.ncon > 0
        saved = state(model, data)
        step_forward(*twin, 1000 + number, 2)  # leaves a warm start and derived data of its own
        load(*twin, saved)
        identical += np.array_equal(step_forward(model, data, 99, 20), step_forward(*twin, 99, 20))
    assert (identical, in_contact) == (10, 10)


def test_fields_of_the_model_are_restored_with_it():
    model, data = pile()
    model.dof_damping[-1], model.site_pos[0] = 1e6, (0.1, 0.2, 0.3)
    saved = state(model, data, ("dof_damping", "site_pos"))
    model.dof_damping[-1], model.site_pos[0] = 1.0, 0.0
    assert saved["dof_damping"][-1] == 1e6  # a copy, not a view
    twin = pile()
    load(*twin, saved)
    assert twin[0].dof_damping[-1] == 1e6 and twin[0].site_pos[0].tolist() == [0.1, 0.2, 0.3]


def test_mocap_control_and_time_are_in_it():
    model, data = pile()
    data.mocap_pos[0], data.ctrl[0], data.time = (1, 2, 3), 0.5, 7.0
    twin = pile()
    load(*twin, state(model, data))
    assert twin[1].mocap_pos[0].tolist() == [1, 2, 3] and twin[1].ctrl[0] == 0.5 and twin[1].time == 7.0


def test_derived_data_are_of_the_loaded_state():
    model, data = pile()
    step_forward(model, data, 0, 3)
    twin = pile()
    load(*twin, state(model, data))
    assert np.array_equal(twin[1].site_xpos, data.site_xpos) and twin[1].ncon == data.ncon > 0


def test_the_state_of_another_model_is_refused_and_changes_nothing():
    model, data = pile()
    saved = state(model, data, ("dof_damping",))
    before = saved["integration"].copy()
    check_refused(
        r"dof_damping has the shape \(3,\), the model's \(19,\)",
        load,
        model,
        data,
        {"integration": np.zeros_like(before), "dof_damping": np.zeros(3)},
    )
    check_refused(
        r"integration has the shape \(2,\)",
        load,
        model,
        data,
        {"integration": np.zeros(2), "dof_damping": np.full(19, 5.0)},
    )
    after = state(model, data, ("dof_damping",))
    assert np.array_equal(after["integration"], before)
    assert np.array_equal(after["dof_damping"], saved["dof_damping"])


def test_the_state_is_mujocos_integration_state():
    model, data = pile()
    assert len(state(model, data)["integration"]) == mujoco.mj_stateSize(model, INTEGRATION)
