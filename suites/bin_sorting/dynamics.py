"""The simulation: OGBench's arm and gripper over a tray, two bins and three blocks, with one compiled model for all of
a process's tasks."""

from __future__ import annotations

import copy
import functools
import warnings
from typing import Any

import mujoco
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # dm_control looks for a display, which is not needed here
    from ogbench.manipspace.envs.manipspace_env import ManipSpaceEnv

from guidebench.harness.interfaces import Array, State
from guidebench.suites.bin_sorting import layout
from guidebench.suites.bin_sorting.cameras import CAMERAS
from guidebench.suites.mujoco import manipspace
from guidebench.suites.mujoco import state as simulation

BLOCKS = 3
CONTROL = 0.1
"""Seconds of an action: 10 Hz."""
REACH = np.array([0.1, 0.1, 0.1])
"""Motion of the gripper's target that an action of 1 commands along x, y, z, metres: twice the package's."""
TURN = 0.6
"""Rotation that an action of 1 commands about each axis, radians: twice the package's."""
TILT = 0.5
"""Largest commanded roll and pitch away from pointing down, radians."""
SWITCH = 0.5
"""The gripper opens above this action, closes below its negative, and else keeps its command."""
CLOSED = 255.0
"""The gripper's command when closed; 0 when open."""
DOWN = np.diag([1.0, -1.0, -1.0])
"""Orientation of a gripper that points down, with yaw 0."""
SETTLE = 0.5
"""Seconds for which blocks come to rest after the arm has been homed."""
MARKER = "marker"
"""A sphere at the gripper's tip that only calibration frames show."""
MARKER_GROUP = 4


class Dynamics(ManipSpaceEnv):  # type: ignore[misc]
    """Arm, gripper, blocks, and how an action moves them."""

    def add_objects(self, arena_mjcf: Any) -> None:
        world = arena_mjcf.worldbody
        arena_mjcf.visual.headlight.diffuse = (0.3, 0.3, 0.3)  # the package's light washes colours out from above
        for light in world.find_all("light"):
            light.diffuse = (0.25, 0.25, 0.25)
        flat: dict[str, Any] = {"type": "box", "contype": 0, "conaffinity": 0, "group": 1}
        world.add("geom", name="tray", pos=(*layout.TRAY, 0.0005), size=(*layout.TRAY_HALF, 0.0005),
                  rgba=(0.55, 0.42, 0.30, 1), **flat)  # fmt: skip
        for name, centre in layout.BINS.items():
            rgba = (0.85, 0.85, 0.85, 1) if name == "left" else (0.25, 0.25, 0.28, 1)
            world.add("geom", name=f"{name}_floor", pos=(*centre, 0.0005), size=(*layout.BIN_HALF, 0.0005), rgba=rgba,
                      **flat)  # fmt: skip
            for axis in (0, 1):
                for side in (-1, 1):
                    place, half = centre.copy(), layout.BIN_HALF + 2 * layout.WALL
                    place[axis] += side * (layout.BIN_HALF[axis] + layout.WALL)
                    half[axis] = layout.WALL
                    world.add("geom", name=f"{name}_wall_{axis}{'+' if side > 0 else '-'}", type="box", rgba=rgba,
                              pos=(*place, layout.RIM / 2), size=(*half, layout.RIM / 2), contype=3, conaffinity=1,
                              group=1)  # fmt: skip
        for number in range(BLOCKS):
            body = world.add("body", name=f"block_{number}", pos=(*layout.TRAY, 0.1 + 0.1 * number))
            body.add("freejoint", name=f"block_{number}")
            body.add("geom", name=f"block_{number}", type="box", size=(layout.BLOCK,) * 3, density=1240,
                     solref=(0.004, 1), contype=3, group=1)  # fmt: skip
        for name, camera in CAMERAS.items():
            world.add("camera", name=name, pos=camera.position, xyaxes=camera.axes.ravel(), fovy=camera.fovy)

    def build_mjcf_model(self) -> Any:
        mjcf = super().build_mjcf_model()
        pinch = mjcf.find("site", "ur5e/robotiq/pinch")
        pinch.parent.add("geom", name=MARKER, type="sphere", pos=pinch.pos, size=(0.008,), rgba=(1, 0, 1, 1),
                         contype=0, conaffinity=0, mass=0, group=MARKER_GROUP)  # fmt: skip
        return mjcf

    def post_compilation_objects(self) -> None:
        model = self._model
        self.blocks = np.array([model.joint(f"block_{number}").qposadr[0] for number in range(BLOCKS)])
        self._speeds = np.array([model.joint(f"block_{number}").dofadr[0] for number in range(BLOCKS)])
        self._robot = np.setdiff1d(np.arange(model.nv), self._speeds[:, None] + np.arange(6))
        rotation, self._offset = self._T_pa.rotation().as_matrix(), self._T_pa.translation()
        self._turned = rotation
        self._at_home = self._joints(layout.HOME, DOWN, self._home_qpos)

    def compute_observation(self) -> None:
        return None

    def get_reset_info(self) -> dict[str, Any]:
        return {}

    # State of the world

    @property
    def tip(self) -> Array:
        """Position of the gripper's tip, float64 [3], as `mj_forward` left it."""
        position: Array = self._data.site_xpos[self._pinch_site_id]
        return position

    @property
    def angles(self) -> Array:
        """Roll, pitch and yaw of the gripper, radians [3], read from its matrix; zeros point down."""
        return _angles(self._data.site_xmat[self._pinch_site_id].reshape(3, 3) @ DOWN.T)

    @property
    def closing(self) -> bool:
        """Whether the gripper's command is to be closed."""
        return bool(self._data.ctrl[self._gripper_actuator_ids[0]] > CLOSED / 2)

    @property
    def opening(self) -> float:
        """How far the gripper is closed: 0 open, 1 closed."""
        return float(np.clip(self._data.qpos[self._gripper_opening_joint_id] / 0.8, 0, 1))

    @property
    def poses(self) -> Array:
        """Positions and quaternions of the blocks, float64 [3, 7]."""
        poses: Array = self._data.qpos[self.blocks[:, None] + np.arange(7)]
        return poses

    # Motion

    def set_control(self, action: Array) -> None:
        """Set the arm's and the gripper's commands by an action [7] in [-1, 1], given derived data that are fresh."""
        position = np.clip(self.tip + action[:3] * REACH, *self._workspace_bounds)
        roll, pitch, yaw = self.angles + action[3:6] * TURN
        aim = _matrix(np.clip(roll, -TILT, TILT), np.clip(pitch, -TILT, TILT), yaw) @ DOWN
        self._data.ctrl[self._arm_actuator_ids] = self._joints(position, aim, self._data.qpos[self._arm_joint_ids])
        if abs(action[6]) > SWITCH:
            self._data.ctrl[self._gripper_actuator_ids] = CLOSED if action[6] < 0 else 0.0

    def advance(self, action: Array) -> None:
        """Take one action [7] of a tenth of a second."""
        self.set_control(action)
        mujoco.mj_step(self._model, self._data, nstep=self._n_steps)
        self.refresh()

    def refresh(self) -> None:
        """Load the simulation's state from itself, so that derived data are the same as in a task restored from that
        state. After a step, derived data of the gripper are one physics step old, and `set_control` reads them."""
        self.load_state(self.state())

    def begin(self) -> None:
        """Begin a new world: reset the simulation to its compiled state."""
        mujoco.mj_resetData(self._model, self._data)

    def home(self) -> None:
        """Put the arm at its home, open and at rest, wherever it was. What it held drops."""
        data = self._data
        at = np.setdiff1d(np.arange(self._model.nq), self.blocks[:, None] + np.arange(7))
        data.qpos[at] = self._model.qpos0[at]
        data.qpos[self._arm_joint_ids] = data.ctrl[self._arm_actuator_ids] = self._at_home
        data.qvel[self._robot] = 0
        data.ctrl[self._gripper_actuator_ids] = 0
        data.qacc_warmstart[:] = 0

    def place(self, number: int, xy: Array, yaw: float) -> None:
        """Lay a block on the ground, at rest."""
        start, speed = self.blocks[number], self._speeds[number]
        self._data.qpos[start : start + 7] = (*xy, layout.BLOCK, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
        self._data.qvel[speed : speed + 6] = 0

    def settle(self) -> None:
        """Let everything come to rest under the present commands."""
        mujoco.mj_step(self._model, self._data, nstep=round(SETTLE / self._physics_timestep))
        self.refresh()

    def state(self) -> State:
        """Return the simulation's complete state."""
        return simulation.state(self._model, self._data)

    def load_state(self, state: State) -> None:
        """Restore what `state` returned; UserError for the state of another model."""
        simulation.load(self._model, self._data, state)

    def posed(self, position: Array) -> Array:
        """Return qpos with the gripper's tip at `position` [3] pointing down, and all else as compiled."""
        qpos: Array = self._model.qpos0.copy()
        qpos[self._arm_joint_ids] = self._joints(position, DOWN, self._at_home)
        return qpos

    def _joints(self, position: Array, aim: Array, near: Array) -> Array:
        """Return the arm's joint angles [6] for a position [3] and orientation [3, 3] of the gripper, by inverse
        kinematics from the angles `near`."""
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, (aim @ self._turned).ravel())
        angles: Array = self._ik.solve(pos=position + aim @ self._offset, quat=quaternion[None], curr_qpos=near)
        return angles


def _matrix(roll: float, pitch: float, yaw: float) -> Array:
    """Return the rotation [3, 3] by roll about x, then pitch about y, then yaw about z, of the world."""
    a, b, c = np.cos((roll, pitch, yaw))
    d, e, f = np.sin((roll, pitch, yaw))
    return np.array(
        [
            [c * b, c * e * d - f * a, c * e * a + f * d],
            [f * b, f * e * d + c * a, f * e * a - c * d],
            [-e, b * d, b * a],
        ]
    )


def _angles(matrix: Array) -> Array:
    """Return roll, pitch and yaw [3] of a rotation, the inverse of `_matrix`."""
    return np.array(
        [
            np.arctan2(matrix[2, 1], matrix[2, 2]),
            -np.arcsin(np.clip(matrix[2, 0], -1, 1)),
            np.arctan2(matrix[1, 0], matrix[0, 0]),
        ]
    )


@functools.cache
def _compiled() -> Dynamics:
    """Return the world whose model all others of this process share."""
    env = Dynamics(mode="data_collection", control_timestep=CONTROL)
    env.reset(seed=0)
    return env


def blocks() -> Array:
    """Return where in qpos each block's position begins, int [3]."""
    addresses: Array = _compiled().blocks
    return addresses


def model() -> mujoco.MjModel:
    """Return a new copy of the model."""
    return copy.copy(_compiled()._model)


def spec() -> mujoco.MjSpec:
    """Return the world's description, to be changed before compilation."""
    return manipspace.spec_of(_compiled())


def make() -> Dynamics:
    """Return a new world that shares the model, to which nothing writes."""
    env = copy.copy(_compiled())
    env._data = mujoco.MjData(env._model)
    return env
