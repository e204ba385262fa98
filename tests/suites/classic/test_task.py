"""CartPole and Acrobot against Gymnasium's own, their state in a fresh process, their frames."""

import hashlib
import importlib.util
import inspect
import json
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from harness.errors import UserError
from suites.classic import Classic, ClassicDrawing
from suites.classic.task import ClassicTask

NAMES = Classic.tasks


def balance(observation: Any) -> int:
    x, speed, angle, turning = observation
    return int(0.1 * x + 0.3 * speed + 3 * angle + turning > 0)


def pump(observation: Any) -> int:
    return 0 if observation[4] > 0 else 2


@pytest.mark.parametrize("name", NAMES)
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
            ended = terminated or truncated
            assert step.success == (ended and ret >= peer.spec.reward_threshold)
            if ended:
                break
        outcomes.add(step.success)
    assert (True in outcomes) == skilled


@pytest.mark.parametrize(("ret", "success"), [(474.0, False), (475.0, True)])
def test_success_is_a_return_of_475_at_the_end(ret, success):
    task = ClassicTask("CartPole-v1")
    task.reset(0)
    state = task.state()
    task.load_state({**state, "elapsed": 499, "return": ret - 1})
    step = task.step(0)
    assert step.truncated and step.success == success
    task.load_state({**state, "elapsed": 400, "return": ret})
    assert not task.step(0).success


def play(task, actions):
    """A digest of everything that `actions` and the next two episodes show; run here and in the fresh process."""
    digest = hashlib.sha256()
    for action in actions:
        step = task.step(action)
        digest.update(step.observation.tobytes() + repr(tuple(step)[1:]).encode() + task.snapshot().tobytes())
        if step.terminated or step.truncated:
            digest.update(task.reset().tobytes())
    for _ in range(2):
        digest.update(task.reset().tobytes())
    return digest.hexdigest()


CONTINUE = f"""
import hashlib, json, sys
import numpy as np
from suites.classic.task import ClassicTask

{inspect.getsource(play)}

found = []
for case in json.load(sys.stdin):
    task = ClassicTask(case["name"])
    kind, numbers = case["state"]["physics"]
    task.load_state({{**case["state"], "physics": np.array(numbers, kind)}})
    found.append(play(task, case["actions"]))
print(json.dumps(found))
"""


def test_a_state_restored_in_a_fresh_process_continues_identically():
    cases, expected = [], []
    for name in NAMES:
        for before in (0, 7):
            task = ClassicTask(name)
            task.reset(5)
            task.reset()
            for _ in range(before):
                task.step(1)
            state = task.state()
            physics = state["physics"]
            rest = np.random.default_rng(2).integers(0, 2, 600).tolist()
            cases.append(
                {
                    "name": name,
                    "state": {**state, "physics": [str(physics.dtype), physics.tolist()]},
                    "actions": rest,
                }
            )
            expected.append(play(task, rest))
    assert len(set(expected)) == 4
    run = subprocess.run(
        [sys.executable, "-c", CONTINUE], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == expected


def test_a_state_is_not_changed_by_later_steps():
    for name in NAMES:
        task = ClassicTask(name)
        task.reset(0)
        state = task.state()
        before = state["physics"].copy()
        task.step(0)
        assert np.array_equal(state["physics"], before) and state["elapsed"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_gymnasiums_own(name):
    task, peer = ClassicTask(name), gymnasium.make(name, render_mode="rgb_array")
    task.reset(2)
    peer.reset(seed=2)
    snapshots, frames = [], []
    for action in (0, 1, 1, 1, 0, 1, 0, 0, 0, 0):
        task.step(action)
        peer.step(action)
        snapshots.append(task.snapshot())
        frames.append(peer.render())
    drawn = ClassicDrawing().spawn(name)(np.stack(snapshots))
    assert snapshots[0].dtype == np.uint8 and snapshots[0].shape == (16,)
    assert drawn.dtype == np.uint8 and np.array_equal(drawn, np.stack(frames))
    assert not np.array_equal(drawn[0], drawn[-1])


def test_without_pygame_the_missing_package_is_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pygame" else found(name))
    with pytest.raises(UserError, match="pygame"):
        ClassicDrawing().spawn("CartPole-v1")


def test_no_position_ends_an_episode_early():
    task = ClassicTask("CartPole-v1")
    task.reset(0)
    assert task.position() is None


@pytest.mark.parametrize("call", ["make", "spaces", "horizon", "seconds_per_step"])
def test_an_unknown_task_is_named_with_the_nearest(call):
    with pytest.raises(UserError, match="unknown task 'CartPole-v0'; did you mean 'CartPole-v1'"):
        getattr(Classic(), call)("CartPole-v0")


def test_frames_of_an_unknown_task_are_refused():
    with pytest.raises(UserError, match="unknown task 'CartPole-v0'; did you mean 'CartPole-v1'"):
        ClassicDrawing().spawn("CartPole-v0")


@pytest.mark.parametrize("name", NAMES)
def test_declared_spaces_and_step_limit_are_gymnasiums(name):
    observations, actions = Classic().spaces(name)
    peer = gymnasium.make(name)
    assert (observations.shape, observations.dtype) == (peer.observation_space.shape, str(peer.observation_space.dtype))
    assert actions.count == peer.action_space.n
    assert Classic().horizon(name) == peer.spec.max_episode_steps


def test_there_are_no_events_to_tell_of():
    task = ClassicTask("CartPole-v1")
    task.reset(0)
    task.step(0)
    assert Classic.events == () and task.events().shape == (0,) and task.events().dtype == bool
