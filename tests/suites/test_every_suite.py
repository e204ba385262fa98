"""Properties of every suite: its declarations and imports, the contract of its tasks, and a state in another
process."""

import copy
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench import suites, testing
from guidebench.harness import registry
from guidebench.harness.loop import checkpoints
from guidebench.harness.settings import Cited, fields
from tests.baselines.learners.conftest import same
from tests.programs import run
from tests.refusals import check_refused
from tests.suites import continuing

SUITES = registry.names("suite")
EVERY = pytest.mark.parametrize("name", SUITES)


def built(name: str, **settings: Any) -> Any:
    return registry.get("suite", name)(**settings)


@EVERY
def test_every_value_of_every_layer_and_every_setting_has_a_source(name: str) -> None:
    suite = registry.get("suite", name)
    profiles = [suite.defaults, *suite.profiles.values()]
    layers = profiles + [layer for profile in profiles for layer in profile.get("by_task", {}).values()]
    for key, value in (pair for layer in layers for pair in layer.items()):
        assert key in ("tasks", "by_task", "judge") or (isinstance(value, Cited) and value.source), key
    for profile in profiles:
        assert set(profile.get("tasks", ())) | set(profile.get("by_task", ())) <= set(suite.tasks)
    for part in (suite, suite.drawing):
        assert all(field.meaning and field.source for field in fields(part).values())


CALLS = ("make", "spaces", "horizon", "ready", "seconds_per_step", "coordinates", "cameras_of", "action_names", "deeds",
         "measures", "surroundings")  # fmt: skip
UNNAMED = {"classic": ("ready",), "minigrid_doorkey": ("ready", "seconds_per_step")}
"""Suite -> calls that accept any name of a task."""


@pytest.mark.parametrize("name", [name for name in SUITES if registry.get("suite", name).tasks])
def test_an_unknown_task_is_named_with_the_nearest(name: str) -> None:
    suite = built(name)
    task = suite.tasks[-1]
    calls = [getattr(suite, call) for call in CALLS if hasattr(suite, call) and call not in UNNAMED.get(name, ())]
    if not name.startswith("crafter"):  # tasks of these suites all look alike
        calls.append(suite.drawing().spawn)
    for call in calls:
        check_refused(f"unknown task '{task}~'; did you mean '{task}'", call, f"{task}~")


@pytest.mark.parametrize(
    ("name", "call", "package", "extra"),
    [
        ("bin_sorting", lambda suite: suite.make("forward"), "ogbench", "mujoco"),
        ("classic", lambda suite: suite.make("Hopper-v5"), "mujoco", "mujoco"),
        ("classic", lambda suite: suite.drawing().spawn("Hopper-v5"), "mujoco", "mujoco"),
        ("classic", lambda suite: suite.drawing().spawn("CartPole-v1"), "pygame", ""),
        ("crafter", lambda suite: suite.ready("game"), "crafter", "crafter"),
        ("crafter", lambda suite: suite.drawing().ready(), "crafter", "crafter"),
        ("crafter_ood", lambda suite: suite.ready("mine_iron"), "crafter", "crafter"),
        ("metaworld", lambda suite: suite.make("reach"), "metaworld", "mujoco"),
        ("ogbench_scene", lambda suite: suite.make("drawer"), "ogbench", "mujoco"),
        ("point_maze", lambda suite: suite.make("open"), "gymnasium_robotics", "mujoco"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    name: str, call: Callable[[Any], Any], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda requested: None if requested == package else find(requested)
    )
    check_refused(f"{package}.*install the extra {extra}" if extra else package, call, built(name))


HEAVY = (
    "crafter", "dm_control", "gymnasium", "gymnasium_robotics", "metaworld", "minigrid", "mujoco", "numba", "ogbench",
    "pandas", "PIL", "pygame", "scipy", "torch",
)  # fmt: skip


def test_naming_the_suites_imports_no_environment() -> None:
    folders = sorted(path.parent.name for root in suites.__path__ for path in Path(root).glob("*/__init__.py"))
    assert {"classic", "mujoco", "point_maze"} < set(folders)
    imports = "".join(f"import guidebench.suites.{folder}\n" for folder in folders)
    code = f"import sys\n{imports}print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SHORT = {"length": 25, "area": 32}
CONTRACT: list[tuple[str, dict[str, Any], str, int]] = [
    ("bin_sorting", {"observation": "state", "length": 8}, "other", 20),
    ("bin_sorting", {"observation": "state", "length": 8}, "sorting", 20),
    ("bin_sorting", {"cameras": "both", "length": 6}, "sorting", 14),
    *(("crafter", {**SHORT, "observation": kind}, "game", 60)
      for kind in ("symbols", "semantic", "text", "pixels", "grey", "grey_text")),
    ("crafter_ood", SHORT, "deforestation", 60),
    ("crafter_ood", SHORT, "free_play", 60),
    ("crafter_ood", SHORT, "trained", 60),
    ("crafter_ood", {**SHORT, "observation": "grey", "size": 84, "death": "restart"}, "attack_cow", 60),
    ("crafter_ood", {**SHORT, "actions": "find", "impossible": "masked"}, "attack_cow", 60),
    ("crafter_ood", {**SHORT, "actions": "product", "observation": "pixels", "impossible": "masked", "zombies": "on"},
     "attack_cow", 60),
    ("housekeep", {"length": 25}, "adjustment_2", 60),
    ("housekeep", {"length": 25, "observation": "text"}, "adjustment_3", 60),
    ("housekeep", {"layouts": None, "reward": "placed"}, "adjustment_1", 40),
    ("metaworld", {"state": "reduced"}, "push", 20),
    ("metaworld_mt10", {}, "mt10", 20),
    ("ogbench_scene", {}, "task5", 20),
    ("point_maze", {"steps": 15}, "medium", 40),
]  # fmt: skip
"""Suite, settings, task and number of steps; `test_testing.py` has those with default settings."""


@pytest.mark.parametrize(("name", "settings", "task", "steps"), CONTRACT)
def test_tasks_keep_the_contract_of_suites_over_several_episodes(
    name: str, settings: dict[str, Any], task: str, steps: int, request: pytest.FixtureRequest
) -> None:
    if not name.startswith(("crafter", "housekeep")):
        request.getfixturevalue("opengl")
    testing.check_task(built(name, **settings), task, steps)


def test_a_state_is_not_changed_by_later_steps_and_continues_in_another_process(tmp_path: Path) -> None:
    """The layout of a seed does not depend on what was played before, either."""
    expected = []
    for number, (name, _, _, steps) in enumerate(continuing.CASES):
        task, actions = continuing.make(number)
        first = task.reset(number).tobytes(), continuing.play(task, actions, 5)
        for _ in range(number % 3):  # a stream of small integers may hold half a word back, which belongs to its state
            task.reset()
        continuing.play(task, actions, steps)
        state = task.state()
        checkpoints.save(tmp_path / str(number), 0, state)
        saved = copy.deepcopy(state)
        expected.append(continuing.play(task, actions, continuing.AHEAD, 0.5) + task.reset().tobytes().hex()[:32])
        assert same(state, saved), name
        assert (task.position() is None) == (name not in ("housekeep", "minigrid_doorkey"))
        assert (task.reset(number).tobytes(), continuing.play(task, actions, 5)) == first, name
    done = run("tests.suites.continuing", str(tmp_path))
    assert json.loads(done.out.splitlines()[-1]) == expected and len(set(expected)) == len(expected), done.err


@pytest.mark.parametrize(
    ("name", "settings", "task"),
    [
        ("bin_sorting", {"observation": "state"}, "backward"), ("crafter_ood", {"area": 32}, "wood_sword"),
        ("housekeep", {}, "adjustment_2"), ("ogbench_scene", {}, "button"), ("point_maze", {}, "umaze"),
        ("point_maze", {"steps": None, "success": "last"}, "medium"),
    ],
)  # fmt: skip
def test_a_demonstration_ends_in_success_and_the_goal_is_its_first(
    name: str, settings: dict[str, Any], task: str
) -> None:
    suite = built(name, **settings)
    demonstration = suite.demonstrate(task, 2)
    assert demonstration is not None and demonstration.success[-1] and demonstration.length <= suite.horizon(task)
    for _ in range(2):
        assert np.array_equal(suite.goal_snapshot(task, 2), demonstration.snapshot[demonstration.success.argmax()])
