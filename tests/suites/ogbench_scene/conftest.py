"""A policy that touches objects, and scenes laid out by hand."""

import numpy as np
import pytest

pytest.importorskip("ogbench")

from guidebench.harness.interfaces import Array
from guidebench.suites.ogbench_scene.task import Scene

JOINTS = {"drawer": "drawer_slide", "window": "window_slide"}


class Toucher:
    """A policy that moves the gripper against cube, buttons and drawer in turn, open and closed, with some noise."""

    def __init__(self, seed: int, period: int = 25) -> None:
        self._draw, self._period, self._step = np.random.default_rng(seed), period, 0

    def __call__(self, task: Scene) -> Array:
        data = task._env.data
        at = data.site("ur5e/robotiq/pinch").xpos
        targets = (
            data.joint("object_joint_0").qpos[:3],
            data.site("btntop_0").xpos - (0, 0, 0.022),
            data.site("btntop_1").xpos - (0, 0, 0.022),
            data.site("drawer_handle_center").xpos,
        )
        turn = self._step // self._period
        target = targets[turn % 4].copy()
        if np.linalg.norm(target[:2] - at[:2]) > 0.04:
            target[2] += 0.06
        self._step += 1
        move = np.append((target - at) * 10, (self._draw.uniform(-1, 1), 1 if turn % 2 else -1))
        return np.float32(np.clip(move + self._draw.normal(0, 0.1, 5), -1, 1))


def touching(task: Scene) -> bool:
    """Return whether the gripper is in contact with anything."""
    model, contact = task._env.model, task._env.data.contact
    bodies = [model.body(b).name for pair in contact.geom for b in model.geom_bodyid[pair]]
    return any("robotiq" in body for body in bodies)


def arrange(task: Scene, **goal: object) -> None:
    """Set parts of a scene at rest, as if a step had led there: cube [3], buttons [2], drawer, window."""
    env = task._env
    task._put_back()
    for name, joint in JOINTS.items():
        if name in goal:
            env.data.joint(joint).qpos[0] = goal[name]
    if "cube" in goal:
        env.data.joint("object_joint_0").qpos[:3] = goal["cube"]
    if "buttons" in goal:
        env.buttons = np.array(goal["buttons"])
    env.data.qvel[:] = 0
    env.pre_step()
    env.post_step()
    task._met = env.successes
    task._keep()


STILL = np.zeros(5, np.float32)
