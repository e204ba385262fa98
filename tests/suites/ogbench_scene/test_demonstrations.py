"""The package's oracles solve every task, and a run that begins with their episodes can stop at any step."""

import functools

import numpy as np
import pytest

pytest.importorskip("ogbench")

from guidebench.harness.episodes import demonstrations
from guidebench.harness.episodes.demonstrations import DemonstrationSpec
from guidebench.harness.trajectories import Trajectory
from guidebench.suites.ogbench_scene import SUBGOALS, OgbenchScene
from guidebench.suites.ogbench_scene.demonstrations import SOLUTIONS, Expert, demonstrate
from guidebench.suites.ogbench_scene.task import Scene

SUITE = OgbenchScene()
FINAL = {  # cube, buttons, drawer and window; None for what a task does not ask for
    "task3": ((0.4, 0.15, 0.02), (1, 1), -0.16, 0.0),
    "task4": ((0.33, -0.356, 0.066), (1, 0), 0.0, 0.0),
    "task5": ((0.33, -0.356, 0.066), (0, 0), 0.0, 0.2),
    "button": (None, (1, None), None, None),
    "drawer": (None, (None, None), -0.16, None),
    "unlock_window": (None, (None, 1), None, 0.0),
}


@functools.cache
def solved_layouts(task: str) -> Trajectory:
    (episode,) = demonstrations.make(DemonstrationSpec("ogbench_scene", SUITE, task, 1))
    return episode


@pytest.mark.parametrize("task", ("button", "unlock_window", "task3", "task5"))
def test_a_solution_ends_at_the_tasks_goal_and_repeats_in_another_scene(task: str) -> None:
    episode = solved_layouts(task)
    assert episode.success[-1] and episode.terminated[-1] and 5 < episode.length < SUITE.horizon(task)
    assert episode.action.dtype == np.float32 and np.abs(episode.action).max() <= 1
    assert episode.observation.dtype == np.float32 and episode.observation.shape == (episode.length, 40)
    scene = Scene(task)
    scene.reset(episode.seed)
    for action in episode.action:
        scene.step(action)
    cube, buttons, *slides = FINAL[task]
    data = scene._env.data
    if cube is not None:
        assert np.linalg.norm(data.joint("object_joint_0").qpos[:3] - cube) <= 0.04
    for number, state in enumerate(buttons):
        assert state is None or scene._env.buttons[number] == state
    for joint, goal in zip(("drawer_slide", "window_slide"), slides, strict=True):
        assert goal is None or abs(data.joint(joint).qpos[0] - goal) <= 0.04


def test_subgoals_are_met_in_the_order_of_the_solution_that_ends_with_the_last_lock() -> None:
    episode = solved_layouts("task5")
    order = [SUBGOALS[number] for _, number in np.argwhere(episode.events)]
    # Buttons and drawer begin in their goal states, so a press or a pull undoes a sub-goal that is met again later.
    assert order[-4:] == ["drawer", "button_0", "window", "button_1"] and "cube" in order[:-3]
    assert len(SOLUTIONS["task5"]) == 8


def test_the_same_layout_has_the_same_solution_whatever_was_drawn_before() -> None:
    np.random.seed(5)
    first = demonstrate("button", 7)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    Scene("task3").reset(3)
    episode = demonstrate("button", 7)
    assert first is not None and episode is not None and np.array_equal(episode.action, first.action)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_an_attempt_that_fails_is_none() -> None:
    task = Scene("drawer")
    assert demonstrations.play(task, 0, Expert(task, SOLUTIONS["button"], 0)) is None
    assert demonstrations.first_success(task, 0, Expert(task, SOLUTIONS["button"], 0)) is None


SHORT = (
    "suite=ogbench_scene", "task=drawer", "method=uer", "training.steps=120", "learner.learning_starts=40",
    "learner.batch_size=16", "evaluation.every=60", "evaluation.episodes=1", "training.demonstrations=2",
)  # fmt: skip
