"""A task's own reward as a function of observations alone, for states that no simulation has been in.

The package computes it from what is seen and from what it looks up in the simulation. Here the latter is told to an
environment that stands still, as far as an observation says it:

- the fingers follow from the hand and its opening (`TIP`, `PADS`: fitted, off by 1 mm on average, by up to 15 where
  something bends one);
- a fixture (button, door, drawer, lock, window, handle) lies where its target says, and so does all that the package
  remembers of where things began; the angle of a door follows from where its handle is;
- how hard the gripper was told to close is in no observation: as hard as it can while it closes or is closed, else not;
- window-open and -close measure how far the gripper began from where the handle was in the first of two layouts of a
  reset; here from where it is in the second.

Where the package remembers a loose thing's place, an observation does not tell it: such tasks have no reward here.
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
"""Attributes in which the package remembers places of a layout."""
TIP = np.array([0.0, 0.0, -0.045])
"""From the hand to the middle between the fingers, in m."""
PADS = np.array([[0.0425, 0.004], [-0.0575, 0.010]])
"""How far along y the left and the right pad are from the hand: m per opening, and m."""
CLOSED, CLOSING = 0.5, 1e-4
"""Openings below the one count as closed; the other is how much less than a step before counts as closing."""


class PosedState(NamedTuple):
    """What is told instead of looked up."""

    tcp: Array
    leftpad: Array
    rightpad: Array
    object: Array


class PosedEnvironment:
    """An environment whose fingers and object are where they are said to be, once that is said."""

    told: PosedState | None = None

    @property
    def tcp_center(self) -> Array:
        return super().tcp_center if self.told is None else self.told.tcp  # type: ignore[misc]

    def get_body_com(self, name: str) -> Any:
        if self.told is not None and name in ("leftpad", "rightpad"):
            return getattr(self.told, name)
        return super().get_body_com(name)  # type: ignore[misc]

    def _get_pos_objects(self) -> Any:
        return super()._get_pos_objects() if self.told is None else self.told.object  # type: ignore[misc]


class Rewarder:
    """Observations of one of the tasks `FIXED`, as `settings` show them, -> its rewards."""

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
        env.told = _moment(seen)
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
    """The hinge of a door, turned such that the handle is where it is said to be."""

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
    """float64 [n] of observations [n, D]; NaN for tasks other than those of `FIXED`, where goals are hidden and layouts
    random, and for what is no number."""
    untold = settings.goal == "hidden" and not settings.fixed
    if task not in FIXED or untold:
        return np.full(len(observations), np.nan)
    return _rewarder(task, settings)(observations)
