"""The mazes against Gymnasium-Robotics' own, their state in contact, their solver."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium_robotics")

from guidebench.suites.point_maze import HORIZON, PointMaze
from guidebench.suites.point_maze.task import SNAPSHOT, Maze, package

TASKS = tuple(HORIZON)
PACKAGE = PointMaze(steps=None, success="last")
"""Episodes as the package has them."""


def pushes(seed, count=200):
    """Actions float32 [count, 2] that push one way for a while, so that the ball meets walls."""
    return np.random.default_rng(seed).uniform(-1, 1, (count // 20, 2)).astype(np.float32).repeat(20, axis=0)


@pytest.mark.parametrize(("name", "reward"), [*((name, "dense") for name in TASKS), ("umaze", "sparse")])
def test_episodes_are_the_packages_bit_for_bit(name, reward):
    env, task, touched, there = package(name, reward_type=reward), Maze(name, replace(PACKAGE, reward=reward)), 0, set()
    for seed in (3, None):  # the second layout continues the random stream of the first
        expected, _ = env.reset(seed=seed)
        observation = task.reset(seed)
        for action in [*pushes(1), *(None,) * 200]:
            assert observation.dtype == np.float32 and observation.shape == (6,)
            assert np.array_equal(observation[:4], np.float32(expected["observation"]))
            assert np.array_equal(observation[4:], np.float32(expected["desired_goal"]))
            action = task.expert() if action is None else action
            expected, paid, terminated, _, info = env.step(action)
            step = task.step(action)
            observation = step.observation
            assert (step.reward, step.success) == (paid, info["success"]) and not (step.terminated or terminated)
            touched += task._env.data.ncon > 0
            there.add(step.success)
    assert touched > 20 and there == {True, False}


def test_dense_reward_falls_off_with_distance_and_sparse_is_paid_within_reach():
    """Worked by hand: 3-4-5 triangles of .5 m and .4 m."""
    seen = np.zeros((3, 6), np.float32)
    seen[:, 4:] = (0, 0), (0.3, 0.4), (0.24, 0.32)
    assert PointMaze("dense").rewards("open", seen) == pytest.approx(np.exp([0, -0.5, -0.4]), rel=1e-6)
    assert PointMaze("sparse").rewards("open", seen).tolist() == [1, 0, 1]


@pytest.mark.parametrize("reward", ["dense", "sparse"])
def test_rewards_of_observations_are_those_that_the_task_pays(reward):
    task = Maze("medium", replace(PACKAGE, reward=reward))
    task.reset(2)
    steps = [task.step(task.expert()) for _ in range(300)]
    told = PointMaze(reward).rewards("medium", np.stack([step.observation for step in steps]))
    assert told == pytest.approx([step.reward for step in steps], rel=1e-6) and told.max() > 0.63


@pytest.mark.parametrize("name", TASKS)
def test_an_episode_lasts_its_horizon_with_one_target_and_its_event_is_arriving(name):
    task = Maze(name, PACKAGE)
    first = task.reset(5)
    steps, arrived = [], []
    while not steps or not steps[-1].truncated:
        steps.append(task.step(task.expert()))
        arrived.append(bool(task.events()[0]))
    success = [step.success for step in steps]
    assert len(steps) == HORIZON[name] == task.max_steps and success[-1] and not success[0]
    assert arrived == [now and not before for before, now in zip([False, *success], success, strict=False)]
    assert all(np.array_equal(step.observation[4:], first[4:]) for step in steps)


@pytest.mark.parametrize("name", TASKS)
def test_the_solver_reaches_every_target_and_stays(name):
    for seed in range(3):
        task = Maze(name, PACKAGE)
        task.reset(seed)
        assert [task.step(task.expert()) for _ in range(task.max_steps)][-1].success


def test_a_snapshot_holds_ball_and_target():
    task = Maze("umaze", PACKAGE)
    task.reset(3)
    for action in pushes(0)[:30]:
        seen = task.step(action).observation
    shot = task.snapshot()
    assert shot.dtype == np.uint8 and shot.shape == (40,)
    (drawn,) = np.frombuffer(shot, SNAPSHOT)
    assert np.array_equal(np.float32(drawn["qpos"]), seen[:2])
    assert np.float32(drawn["site_pos"]).tolist() == [[*seen[4:].tolist(), np.float32(0.2)]]
    task.step(pushes(0)[30])
    assert not np.array_equal(task.snapshot(), shot), "what was taken is the caller's to keep"


def test_nothing_else_in_the_model_ever_changes():
    task = Maze("medium", PACKAGE)
    model = task._env.model
    names = [name for name in dir(model) if isinstance(getattr(model, name, None), np.ndarray)]
    before = {name: getattr(model, name).copy() for name in names}
    for seed in range(3):
        task.reset(seed)
        for action in pushes(seed):
            task.step(action)
    assert {name for name in names if not np.array_equal(before[name], getattr(model, name))} == {"site_pos"}


def test_making_one_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    state = Maze("open", PACKAGE).state()
    assert not list(Path(tmp_path).iterdir())
    assert json.dumps(state["random"]) and state["elapsed"] == 0


def test_an_episode_succeeds_where_the_ball_has_been_or_where_it_ends():
    """The solver arrives; then the ball is pushed away until it has left."""
    tasks = {kind: Maze("open", PointMaze(steps=None, success=kind)) for kind in ("any", "last")}
    found: dict[str, list[bool]] = {"any": [], "last": []}
    for kind, task in tasks.items():
        task.reset(3)
        while not task._at_target:
            found[kind].append(task.step(task.expert()).success)
        arrived = len(found[kind])
        away = -np.sign(task.expert()) if task.expert().any() else np.ones(2)
        while task._at_target:
            found[kind].append(task.step(away.astype(np.float32)).success)
        assert task.subgoals() == {"success_any": True, "success_last": False}
    assert found["any"][: arrived - 1] == found["last"][: arrived - 1] == [False] * (arrived - 1)
    assert found["any"][arrived - 1 :] == [True] * (len(found["any"]) - arrived + 1)
    assert found["last"][-1] is False and found["last"][arrived - 1] is True
    resumed = Maze("open", PointMaze(steps=None))
    resumed.load_state(tasks["any"].state())
    assert resumed.step(np.zeros(2, np.float32)).success
    assert resumed.reset(4) is not None and not resumed.step(np.zeros(2, np.float32)).success
