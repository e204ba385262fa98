"""What the suite declares, held against what its tasks do."""

import subprocess
import sys

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.registry import get
from guidebench.harness.settings import Cited, fields
from guidebench.suites.minigrid_doorkey import DoorKeyDrawing, MiniGridDoorKey, Sprite


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
    for task, cells in (("5x5", 25), ("8x8", 64), ("12x12", 144), ("16x16", 256)):
        made = MiniGridDoorKey().make(task)
        assert made.max_steps == MiniGridDoorKey().horizon(task) == 10 * cells
        assert made.instruction == "use the key to open the door and then get to the goal"


@pytest.mark.parametrize("call", ["make", "spaces", "horizon"])
def test_an_unknown_task_is_named_with_the_nearest(call):
    with pytest.raises(UserError, match="unknown task '8x9'; did you mean '8x8'"):
        getattr(MiniGridDoorKey(), call)("8x9")


@pytest.mark.parametrize("perturbation", ["none", "sprite_swap", "texture"])
def test_frames_of_an_unknown_task_are_refused(perturbation):
    with pytest.raises(UserError, match="unknown task '8x9'; did you mean '8x8'"):
        DoorKeyDrawing(perturbation=perturbation).spawn("8x9")


def test_a_task_tells_of_as_many_events_as_the_suite_names():
    task = MiniGridDoorKey().make("5x5")
    task.reset(0)
    assert MiniGridDoorKey.events == ("key", "door", "goal") and task.events().shape == (3,)


def test_the_protocol_is_the_papers():
    values = {key: cited.value for key, cited in MiniGridDoorKey.defaults.items() if key[:6] != "judge."}
    assert values == {"training.steps": 1_000_000, "evaluation.every": 2_000, "evaluation.episodes": 32}
    assert MiniGridDoorKey.profiles["paper"] == {"tasks": ("8x8", "12x12", "16x16"), "judge": "transformers"}


def test_every_value_of_every_layer_has_a_source():
    for name in ("minigrid_doorkey", "classic"):
        suite = get("suite", name)
        for layer in (suite.defaults, *suite.profiles.values(), *_by_task(suite)):
            for key, value in layer.items():
                assert key in ("tasks", "by_task", "judge") or (isinstance(value, Cited) and value.source), (name, key)
        for profile in suite.profiles.values():
            assert set(profile.get("tasks", ())) | set(profile.get("by_task", ())) <= set(suite.tasks)


def _by_task(suite):
    return [layer for profile in suite.profiles.values() for layer in profile.get("by_task", {}).values()]


def test_every_setting_says_what_it_means_and_where_it_comes_from():
    assert not fields(MiniGridDoorKey)
    for config in (DoorKeyDrawing, Sprite):
        for field in fields(config).values():
            assert field.meaning and field.source.startswith(("choice", "VLM-RB")), field
    assert fields(DoorKeyDrawing)["tile_size"].unit == "pixels"
    assert fields(Sprite)["delay"].default == 1024


def test_naming_the_suites_imports_no_environment():
    code = (
        "import sys, guidebench.suites.minigrid_doorkey, guidebench.suites.classic; "
        "print(sorted({'minigrid', 'gymnasium', 'pygame', 'torch', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_judge_is_labelled_as_what_it_is():
    judge = get("judge", "sprite")
    assert (judge.backend, judge.privileged, judge.title) == ("scripted", False, "hand-written for this task")
