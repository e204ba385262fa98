"""Frames of the mazes."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("gymnasium_robotics")

from guidebench.suites.mujoco import gl  # noqa: E402
from guidebench.suites.point_maze import MazeDrawing, PointMaze  # noqa: E402
from guidebench.suites.point_maze.drawing import CENTRE  # noqa: E402
from guidebench.suites.point_maze.task import Maze, package  # noqa: E402


@pytest.mark.parametrize("name", ["umaze", "medium"])
def test_full_frames_are_those_of_the_packages_own_render(name, monkeypatch, opengl):
    """Compared at the start, and on the way after kinematics are updated to the ball's last step: the package by itself
    draws the step before. In the medium maze its camera is moved to where ours looks."""
    monkeypatch.setattr("mujoco.gl_context.GLContext", gl.context)
    task, env, drawer = (
        Maze(name, PointMaze()),
        package(name, render_mode="rgb_array"),
        MazeDrawing(size=480, quality="full").spawn(name),
    )
    if name == "medium":
        env.point_env.mujoco_renderer.default_cam_config["lookat"] = np.array(CENTRE)
    env.reset(seed=0), task.reset(0)
    for step in range(11):
        if step % 10 == 0:
            expected, (frame,) = env.render(), drawer(task.snapshot()[None])
            assert expected.shape == (480, 480, 3) and np.array_equal(frame, expected)
        action = task.expert()
        env.step(action), task.step(action)
        mujoco.mj_kinematics(env.model, env.data)
    env.close()


def test_ball_and_target_are_seen_where_they_are(opengl):
    """The ball is green and the target red; right on the screen is along x, and up along y."""
    drawer = MazeDrawing(size=96).spawn("open")
    task = Maze("open", PointMaze())

    def middle(colour):
        rows, columns = np.nonzero(colour)
        return columns.mean() / 96 - 0.5, 0.5 - rows.mean() / 96

    for seed in range(6):
        observation = task.reset(seed)
        red, green, blue = np.moveaxis(drawer(task.snapshot()[None])[0].astype(int), -1, 0)
        ball = middle((green > red + 40) & (green > blue + 40))
        target = middle((red > 100) & (green < 60) & (blue < 60))
        apart = np.subtract(target, ball)
        assert (np.sign(apart) == np.sign(observation[4:] - observation[:2]))[
            np.abs(observation[4:] - observation[:2]) > 0.3
        ].all()
