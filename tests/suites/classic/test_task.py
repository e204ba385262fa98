"""Tasks compared with Gymnasium's own environments, their state, and their frames."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from guidebench.suites.classic import Classic, ClassicDrawing
from guidebench.suites.classic.task import ClassicTask

NAMES = Classic.tasks
DISCRETE = ("CartPole-v1", "Acrobot-v1")
LARGEST = {"Pendulum-v1": 2.0, "HalfCheetah-v5": 1.0, "Hopper-v5": 1.0}
"""Task -> torque of an action of 1."""


def balance(observation: Any) -> int:
    x, speed, angle, turning = observation
    return int(0.1 * x + 0.3 * speed + 3 * angle + turning > 0)


def pump(observation: Any) -> int:
    return 0 if observation[4] > 0 else 2


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("skilled", [False, True])
def test_episodes_are_bit_identical_to_gymnasiums(name, skilled):
    task, peer, draw = ClassicTask(name), gymnasium.make(name), np.random.default_rng(1)
    count = Classic().spaces(name)[1].count
    policy = {"CartPole-v1": balance, "Acrobot-v1": pump}[name]
    outcomes = set()
    for seed in (3, None, None, None):
        expected, _ = peer.reset(seed=seed)
        observation, ret = task.reset(seed), 0.0
        assert np.array_equal(observation, expected)
        while True:
            action = policy(observation) if skilled else int(draw.integers(count))
            expected, reward, terminated, truncated, _ = peer.step(action)
            step = task.step(action)
            observation, ret = step.observation, ret + reward
            assert observation.dtype == np.float32 and np.array_equal(observation, expected)
            assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
            is_over = terminated or truncated
            assert step.success == (is_over and ret >= peer.spec.reward_threshold)
            if is_over:
                break
        outcomes.add(step.success)
    assert (True in outcomes) == skilled


@pytest.mark.parametrize("name", LARGEST)
def test_continuous_episodes_are_bit_identical_to_gymnasiums_with_actions_scaled_to_its_range(name):
    task, peer, draw = Classic().make(name), gymnasium.make(name), np.random.default_rng(1)
    shape = Classic().spaces(name)[1].shape
    for seed in (3, None, 8):
        expected, _ = peer.reset(seed=seed)
        observation = task.reset(seed)
        assert observation.dtype == np.float32 and np.array_equal(observation, expected.astype(np.float32))
        is_over = False
        while not is_over:
            action = draw.uniform(-1, 1, shape).astype(np.float32)
            expected, reward, terminated, truncated, _ = peer.step(np.float32(LARGEST[name]) * action)
            step = task.step(action)
            assert step.observation.dtype == np.float32
            assert np.array_equal(step.observation, expected.astype(np.float32))
            assert (step.reward, step.terminated, step.truncated) == (reward, terminated, truncated)
            assert type(step.terminated) is bool and not step.success
            is_over = terminated or truncated


def test_an_action_of_one_is_the_largest_torque():
    """A pendulum that hangs to the side at rest gains 3g/2l · sin θ · dt = .75 by gravity and 3/ml² · 2 · dt = .3 by
    torque."""
    task = Classic().make("Pendulum-v1")
    task.reset(0)
    for action, speed in ((1.0, 1.05), (0.0, 0.75), (-1.0, 0.45)):
        task.load_state({**task.state(), "physics": np.array([np.pi / 2, 0.0, np.nan])})
        step = task.step(np.array([action], np.float32))
        assert step.observation[2] == pytest.approx(speed, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "ret", "success"),
    [
        ("HalfCheetah-v5", 4_000.0, False),
        ("HalfCheetah-v5", 5_600.0, True),
        ("Hopper-v5", 3_000.0, False),
        ("Hopper-v5", 4_600.0, True),
        ("Pendulum-v1", 1e9, False),
        ("CartPole-v1", 473.0, False),
        ("CartPole-v1", 474.0, True),
    ],
)
def test_success_is_gymnasiums_threshold_at_the_end_or_never(name, ret, success):
    """Thresholds are 4,800, 3,800 and 475; Pendulum has none."""
    task = Classic().make(name)
    task.reset(0)
    task.load_state({**task.state(), "elapsed": task.max_steps - 1, "return": ret})
    nothing = np.zeros(Classic().spaces(name)[1].shape, np.float32) if name in LARGEST else 0
    step = task.step(nothing)
    assert step.truncated and step.success == success and task.position() is None
    task.load_state({**task.state(), "elapsed": 3, "return": 1e9})
    assert not task.step(nothing).success


@pytest.mark.parametrize("name", [*DISCRETE, "Pendulum-v1"])
def test_frames_are_gymnasiums_own(name):
    task, peer = ClassicTask(name), gymnasium.make(name, render_mode="rgb_array")
    task.reset(2)
    peer.reset(seed=2)
    snapshots, frames = [task.snapshot()], [peer.render()]
    for action in (0, 1, 1, 1, 0, 1, 0, 0, 0, 0):
        task.step(action if name in DISCRETE else [2.0 * action - 1.0])
        peer.step(action if name in DISCRETE else np.array([4 * action - 2], np.float32))
        snapshots.append(task.snapshot())
        frames.append(peer.render())
    drawn_frames = ClassicDrawing().spawn(name)(np.stack(snapshots))
    assert snapshots[0].dtype == np.uint8 and snapshots[0].shape == (12 if name == "Pendulum-v1" else 16,)
    assert drawn_frames.dtype == np.uint8 and np.array_equal(drawn_frames, np.stack(frames))
    assert not np.array_equal(drawn_frames[0], drawn_frames[-1])


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Hopper-v5"])
def test_frames_on_mujoco_are_gymnasiums_own_of_the_state_after_a_step(name, opengl):
    """`mj_step` leaves the positions of bodies one substep behind and Gymnasium draws that; here they are updated
    first."""
    import mujoco

    task = Classic().make(name)
    task.reset(2)
    peer = gymnasium.make(name, render_mode="rgb_array", camera_name="track")
    peer.reset(seed=2)
    inner, snapshots, frames = peer.unwrapped, [], []
    for action in np.random.default_rng(4).uniform(-1, 1, (6, *Classic().spaces(name)[1].shape)).astype(np.float32):
        task.step(action)
        peer.step(action)
        mujoco.mj_forward(inner.model, inner.data)
        snapshots.append(task.snapshot())
        frames.append(peer.render())
    peer.close()
    drawn_frames = ClassicDrawing().spawn(name)(np.stack(snapshots))
    assert drawn_frames.dtype == np.uint8 and np.array_equal(drawn_frames, np.stack(frames))
    assert not np.array_equal(drawn_frames[0], drawn_frames[-1])


@pytest.mark.parametrize("name", NAMES)
def test_declared_spaces_and_step_limit_are_gymnasiums(name):
    observations, actions = Classic().spaces(name)
    peer = gymnasium.make(name)
    assert observations.shape == peer.observation_space.shape and observations.dtype == "float32"
    if actions.discrete:
        assert actions.count == peer.action_space.n
    else:
        assert actions.shape == peer.action_space.shape
        assert (peer.action_space.high == LARGEST[name]).all() and (peer.action_space.low == -LARGEST[name]).all()
    assert Classic().horizon(name) == peer.spec.max_episode_steps
