"""MetaWorld's environments without computations whose results are unused; a process compiles each scene once.

The dynamics are the package's own, step for step and bit for bit. Left out are forces that no reward uses, the hand's
motion to its start in the first of the two resets that a reset of the package makes, and look-ups by name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import mujoco
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS

from guidebench.harness.interfaces import Array, State
from guidebench.suites.metaworld import MEASURES
from guidebench.suites.mujoco import state as simulation

WRITTEN = ("body_pos", "site_pos")
"""Fields of the model that the package writes to: positions of objects in a layout, and goal markers."""
OBJECTS = 4
"""Index of the first object entry in an observation of one moment, after the hand [3] and the gripper's opening."""
WIDTH = 18
"""Entries of an observation of one moment."""
SIDE = 480
"""Largest width and height, in pixels, of the package's default frames."""


class Dynamics:
    """One environment, whose class is derived from this one and the package's (`make`).

    An episode depends only on the generator of its layout, not on earlier episodes.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    fullpath: str
    frame_skip: int
    measured: Array
    """What the package measured after the last step (`MEASURES`), float32 [3]; zeros before an episode's first."""
    written: dict[str, Array]
    """This environment's values of the model fields `WRITTEN`; environments that share the model also write to them."""
    _prev_obs: Array
    _np_random: np.random.Generator
    _rehearsing = False

    def begin(self, random: np.random.Generator) -> Array:
        """Begin a new episode with a layout drawn from `random`; return the observation, float64 [39], as after the
        package's `seed` and `reset`.

        The package resets twice, and the second time the hand moves to its start past the objects laid out by the first
        reset. The hand's motion in the first reset has no effect.
        """
        env: Any = self
        self._put(scene(self.fullpath).pristine)
        self._np_random = random
        self._rehearsing = True
        env.reset_model()
        self._rehearsing = False
        mujoco.mj_resetData(self.model, self.data)
        observation = env.reset_model()
        self._prev_obs = observation[:WIDTH].copy()
        observation[WIDTH : 2 * WIDTH] = self._prev_obs
        self._keep()
        self.measured = np.zeros(len(MEASURES), np.float32)
        return np.asarray(observation, np.float64)

    def advance(self, action: Array) -> tuple[Array, float, bool]:
        """Take an action float32 [4] in [-1, 1]; return the observation, float64 [39], the task's own reward, and
        success."""
        env: Any = self
        self._put(self.written)
        env.set_xyz_action(action[:3])
        self._step_mujoco_simulation([action[-1], -action[-1]], self.frame_skip)
        mujoco.mj_forward(self.model, self.data)
        observation = np.minimum(np.maximum(env._get_obs(), self._bounds[0]), self._bounds[1])
        reward, info = env.evaluate_state(observation, action)
        self.measured = np.array([info[name] for name in MEASURES], np.float32)
        return observation, float(reward), bool(info["success"])

    def state(self) -> State:
        """Return the simulation's state and the attributes in which the package stores the episode's state. Attributes
        that are views into the simulation are excluded, since they follow from it."""
        self._put(self.written)
        attributes = {name: _leaf(value) for name, value in vars(self).items() if _remembers(value)}
        return {"simulation": simulation.state(self.model, self.data, WRITTEN), "attributes": attributes}

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for the state of another scene."""
        simulation.load(self.model, self.data, state["simulation"])
        self._keep()
        for name, value in state["attributes"].items():
            setattr(self, name, np.array(value)[()] if isinstance(value, np.ndarray) else value)

    def _put(self, written: Mapping[str, Array]) -> None:
        for name, values in written.items():
            getattr(self.model, name)[:] = values

    def _keep(self) -> None:
        self.written = {name: getattr(self.model, name).copy() for name in WRITTEN}

    @functools.cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """Smallest and largest values of observation entries."""
        space = self.sawyer_observation_space  # type: ignore[attr-defined]
        return space.low, space.high

    @functools.cached_property
    def _hand(self) -> tuple[Array, Array, Array]:
        """Positions [3] of the hand and of its two claws, as views that stay current."""
        hand, right_claw, left_claw = (self.data.body(name).xpos for name in ("hand", "rightclaw", "leftclaw"))
        return hand, right_claw, left_claw

    def touching_object(self, object_geom_id: int) -> bool:
        """Return whether both finger pads press on that geom."""
        contact = self.data.contact
        pairs = contact.geom
        on_object = (pairs == object_geom_id).any(axis=-1)
        for pad in self._pads:
            pressing = on_object & (pairs == pad).any(axis=-1)
            if not self.data.efc_force[contact.efc_address[pressing]].sum() > 0:
                return False
        return True

    @functools.cached_property
    def _pads(self) -> tuple[int, int]:
        """Geoms of the finger pads."""
        return self.model.geom("leftpad_geom").id, self.model.geom("rightpad_geom").id

    def _initialize_simulation(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        model = scene(self.fullpath).model
        return model, mujoco.MjData(model)

    def _step_mujoco_simulation(self, ctrl: Any, n_frames: int) -> None:
        self.data.ctrl[:] = ctrl
        mujoco.mj_step(self.model, self.data, nstep=n_frames)

    def _reset_hand(self, steps: int = 50) -> None:
        super()._reset_hand(0 if self._rehearsing else steps)  # type: ignore[misc]

    def _get_curr_obs_combined_no_goal(self) -> Array:
        env: Any = self
        hand, right_claw, left_claw = self._hand
        offset = right_claw - left_claw
        moment = np.zeros(WIDTH)
        moment[:3] = hand
        moment[3] = min(max(math.sqrt(offset.dot(offset)) / 0.1, 0.0), 1.0)
        places, turns = env._get_pos_objects(), env._get_quat_objects()
        for number in range(len(places) // 3):
            at = OBJECTS + 7 * number
            moment[at : at + 3] = places[3 * number : 3 * number + 3]
            moment[at + 3 : at + 7] = turns[4 * number : 4 * number + 4]
        return moment


class Scene(NamedTuple):
    """A scene file's model, shared by all of this process's tasks in that scene (0.2 s, 20 MB)."""

    model: mujoco.MjModel
    pristine: dict[str, Array]
    """The fields `WRITTEN` as in the file."""


@functools.cache
def scene(path: str) -> Scene:
    """Return the scene of that file."""
    model = mujoco.MjModel.from_xml_path(path)
    view = model.vis.global_
    view.offwidth, view.offheight = max(SIDE, view.offwidth), max(SIDE, view.offheight)
    return Scene(model, {name: getattr(model, name).copy() for name in WRITTEN})


def _remembers(value: Any) -> bool:
    """Return whether an attribute with this value is part of a state."""
    if not isinstance(value, np.ndarray):
        return value is None or isinstance(value, (bool, int, float, np.generic))
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value.base is None  # otherwise it is a view into the simulation


def _leaf(value: Any) -> Any:
    return np.array(value) if isinstance(value, (np.ndarray, np.generic)) else value


@functools.cache
def _kind(task: str, *parts: type) -> type:
    return type("Dynamics", (*parts, Dynamics, ALL_V3_ENVIRONMENTS[f"{task}-v3"]), {})


def make(task: str, *parts: type) -> Any:
    """Return a new environment that shares its model; its goal is observable and no episode has begun. The classes
    `parts` override its methods."""
    env = _kind(task, *parts)()
    env._partially_observable = False
    env.__dict__.pop("sawyer_observation_space", None)  # computed when the goal was hidden
    env._set_task_called = env.seeded_rand_vec = True
    env._freeze_rand_vec = False
    return env
