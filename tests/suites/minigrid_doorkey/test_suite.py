"""The suite's declarations agree with what its tasks do."""

import numpy as np
import pytest

from guidebench.harness.registry import get
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey


@pytest.mark.parametrize("task", MiniGridDoorKey.tasks)
def test_observations_are_codes_within_the_declared_categories(task):
    suite = MiniGridDoorKey()
    observations, actions = suite.spaces(task)
    environment = suite.make(task)
    largest = environment.reset(0).reshape(-1, 3).max(0)
    for _ in range(200):
        step = environment.step(environment.expert())
        assert step.observation.shape == observations.shape and step.observation.dtype == observations.dtype
        largest = np.maximum(largest, step.observation.reshape(-1, 3).max(0))
        if step.terminated:
            environment.reset()
    assert (largest < observations.categories).all() and largest[0] == 10
    assert largest[2] == observations.categories[2] - 1
    assert actions.count == 5


def test_step_limits_and_instruction_are_minigrids():
    for task, cells in (("5x5", 25), ("7x7", 49), ("8x8", 64), ("12x12", 144), ("16x16", 256)):
        environment = MiniGridDoorKey().make(task)
        assert environment.max_steps == MiniGridDoorKey().horizon(task) == 10 * cells
        assert environment.instruction == "use the key to open the door and then get to the goal"


def test_a_length_shortens_episodes_and_a_test_length_those_of_evaluations():
    suite = MiniGridDoorKey(length=40, test_length=7)
    played, evaluated = suite.make("7x7"), suite.in_evaluation().make("7x7")
    assert (played.max_steps, suite.horizon("7x7"), evaluated.max_steps) == (40, 40, 7)
    evaluated.reset(0)
    steps = [evaluated.step(0) for _ in range(7)]
    assert [step.truncated for step in steps] == [False] * 6 + [True]
    assert MiniGridDoorKey(length=40).in_evaluation().horizon("7x7") == 40
    assert MiniGridDoorKey().in_evaluation() == MiniGridDoorKey()


def test_the_protocol_is_the_papers():
    values = {key: cited.value for key, cited in MiniGridDoorKey.defaults.items() if key[:6] != "judge."}
    assert values == {"training.steps": 1_000_000, "evaluation.every": 2_000, "evaluation.episodes": 32}
    assert MiniGridDoorKey.profiles["paper"] == {"tasks": ("8x8", "12x12", "16x16")}
    assert MiniGridDoorKey.judges == {"paper": "transformers", "scripted": "sprite", "oracle": "oracle"}


def test_the_judge_is_labelled_as_what_it_is():
    judge = get("judge", "sprite")
    assert (judge.backend, judge.privileged, judge.title) == ("scripted", False, "hand-written for this task")
    assert judge().delay == 1024
