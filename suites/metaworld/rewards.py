"""A task's own reward as a function of observations alone, for states that no simulation has visited.

The package computes the reward from the observation and from values that it reads in the simulation. Here these values
are set in an environment that does not move, as far as an observation determines them:

- the fingers follow from the hand and its opening (`TIP`, `PADS`: fitted, off by 1 mm on average, by up to 15 where
  a finger is bent);
- a fixture (button, door, drawer, lock, window, handle) is placed where its target is, and so are all initial positions
  that the package stores; the angle of a door follows from the position of its handle;
- the commanded gripper force is in no observation: it is taken as the maximum while the gripper closes or is closed,
  and as opening otherwise;
- window-open and -close measure the distance of the gripper's start from the handle's position in the first of two
  layouts of a reset; here the handle's position in the second layout is used.

Where the package stores the position of a loose object, an observation does not contain it; such tasks have no reward
here.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import mujoco
import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.metaworld import MetaWorld, dynamics, entries

FIXED = (
    "button-press", "button-press-topdown", "button-press-topdown-wall", "button-press-wall", "coffee-button",
    "door-close", "door-lock", "door-open", "door-unlock", "drawer-close", "drawer-open", "faucet-close", "faucet-open",
    "handle-press", "handle-press-side", "handle-pull", "handle-pull-side", "reach", "reach-wall", "window-close",
    "window-open",
)  # fmt: skip
"""Tasks whose reward follows from an observation in this way."""
REMEMBERED = ("_target_pos", "obj_init_pos", "_handle_init_pos", "window_handle_pos_init")
"""Attributes in which the package stores positions of a layout."""
TIP = np.array([0.0, 0.0, -0.045])
"""Offset from the hand to the middle between the fingers, in m."""
PADS = np.array([[0.0425, 0.004], [-0.0575, 0.010]])
"""Offsets along y of the left and the right pad from the hand: m per unit of opening, and m."""
CLOSED, CLOSING = 0.5, 1e-4
"""Opening below which the gripper counts as closed, and decrease since the step before above which it counts as
closing."""


class PosedState(NamedTuple):
    """Positions that are set instead of read from the simulation."""

    tcp: Array
    leftpad: Array
    rightpad: Array
    object: Array


class PosedEnvironment:
    """An environment whose fingers and object are at given positions, once these are set."""

    pose: PosedState | None = None

    @property
    def tcp_center(self) -> Array:
        return super().tcp_center if self.pose is None else self.pose.tcp  # type: ignore[misc]

    def get_body_com(self, name: str) -> Any:
        if self.pose is not None and name in ("leftpad", "rightpad"):
            return getattr(self.pose, name)
        return super().get_body_com(name)  # type: ignore[misc]

    def _get_pos_objects(self) -> Any:
        return super()._get_pos_objects() if self.pose is None else self.pose.object  # type: ignore[misc]


class Rewarder:
    """Computes rewards of observations of one of the tasks `FIXED`, in the format that `settings` defines."""

    def __init__(self, task: str, settings: MetaWorld) -> None:
        self._settings, self._entries = settings, np.array(entries(task, settings.state, False))
        self._env = env = dynamics.make(task, PosedEnvironment)
        self._start = env.begin(np.random.default_rng(settings.layout))
        mujoco.mj_forward(env.model, env.data)
        if hasattr(env, "window_handle_pos_init"):
            env.window_handle_pos_init = env._get_pos_objects()
        self._places = {name: getattr(env, name).copy() for name in REMEMBERED if hasattr(env, name)}
        self._door = _Door(env) if task == "door-open" else None

    def __call__(self, observations: Array) -> Array:
        return np.array([self._reward(row) for row in np.asarray(observations, np.float64)])

    def _reward(self, observation: Array) -> float:
        if not np.isfinite(observation).all():
            return math.nan
        seen, env = self._start.copy(), self._env
        seen[self._entries] = observation
        if self._settings.goal == "hidden":
            seen[-3:] = self._start[-3:]
        seen[3], before = np.clip(seen[[3, 21]], 0.0, 1.0)
        shift = seen[-3:] - self._places["_target_pos"]
        for name, place in self._places.items():
            setattr(env, name, place + shift)
        env.pose = _moment(seen)
        if self._door is not None:
            self._door.turn(seen[4:7] - shift)
        tells = 3 in self._entries
        closes = tells and (seen[3] < CLOSED or before - seen[3] > CLOSING)
        action = np.array([0.0, 0.0, 0.0, 1.0 if closes else -1.0], np.float32)
        reward, info = env.evaluate_state(seen, action)
        return float(reward) if self._settings.reward == "dense" else float(info["success"]) - 1.0


def _moment(seen: Array) -> PosedState:
    hand = seen[:3]
    beside = PADS @ (seen[3], 1.0)
    left, right = hand.copy(), hand.copy()
    left[1] += beside[0]
    right[1] += beside[1]
    tcp = hand + TIP
    tcp[1] += beside.mean()
    return PosedState(tcp, left, right, seen[4:7])


class _Door:
    """The hinge of a door, rotated so that the handle is at a given position."""

    def __init__(self, env: Any) -> None:
        joint = env.data.joint("doorjoint")
        self._joint, self._hinge, self._sense = joint, joint.xanchor.copy(), float(np.sign(joint.xaxis[2]))
        self._closed = self._angle(env._get_pos_objects()) - self._sense * float(joint.qpos[0])

    def _angle(self, handle: Array) -> float:
        x, y, _ = handle - self._hinge
        return math.atan2(y, x)

    def turn(self, handle: Array) -> None:
        turned = self._angle(handle) - self._closed
        self._joint.qpos[0] = self._sense * ((turned + math.pi) % (2 * math.pi) - math.pi)


@functools.lru_cache(maxsize=16)
def _rewarder(task: str, settings: MetaWorld) -> Rewarder:
    return Rewarder(task, settings)


def rewards(task: str, observations: Array, settings: MetaWorld) -> Array:
    """Return rewards float64 [n] of observations [n, D]; NaN for tasks not in `FIXED`, for hidden goals with random
    layouts, and for observations that are not finite."""
    unknown = settings.goal == "hidden" and not settings.fixed
    if task not in FIXED or unknown:
        return np.full(len(observations), np.nan)
    return _rewarder(task, settings)(observations)
