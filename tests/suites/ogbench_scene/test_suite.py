"""What the suite declares, held against what its tasks do; and a run of it."""

import functools
import subprocess
import sys

import gymnasium
import pytest

pytest.importorskip("ogbench")

from guidebench import results
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.plan import matrix
from guidebench.harness.registry import get
from guidebench.harness.settings import Cited, fields
from guidebench.suites import mujoco
from guidebench.suites.ogbench_scene import SUBGOALS, TASKS, OgbenchScene

from .conftest import STILL


@pytest.mark.parametrize("name", TASKS)
def test_spaces_horizons_and_events_are_those_of_the_tasks(name):
    suite = OgbenchScene()
    observations, actions = suite.spaces(name)
    task = suite.make(name)
    step = task.step(STILL)
    assert step.observation.shape == observations.shape == (40,) and step.observation.dtype == observations.dtype
    assert actions.shape == (5,) and not actions.discrete
    assert task.max_steps == suite.horizon(name) == (200 if name in ("button", "drawer") else 750)
    assert task.events().shape == (len(suite.events),) and suite.events == SUBGOALS


def test_the_papers_horizon_is_the_packages():
    import ogbench  # noqa: F401 - registers its environments

    for number in (3, 4, 5):
        spec = gymnasium.spec(f"scene-singletask-task{number}-v0")
        assert spec.max_episode_steps == OgbenchScene().horizon(f"task{number}")


@pytest.mark.parametrize("call", ["make", "spaces", "horizon", "seconds_per_step"])
def test_an_unknown_task_is_named_with_the_nearest(call):
    with pytest.raises(UserError, match="unknown task 'task6'; did you mean 'task"):
        getattr(OgbenchScene(), call)("task6")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr(mujoco.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"suite ogbench_scene needs the package ogbench: .*guidebench\[mujoco\]"):
        OgbenchScene().make("drawer")


def test_the_protocol_is_the_papers():
    values = {key: cited.value for key, cited in OgbenchScene.defaults.items() if not key.startswith("judge.")}
    assert values == {
        "training.steps": 1_000_000, "training.capacity": 1_000_000, "training.demonstrations": 10,
        "evaluation.every": 2_000, "evaluation.episodes": 32,
    }  # fmt: skip
    assert OgbenchScene.profiles["paper"] == {"tasks": ("task3", "task4", "task5"), "judge": "transformers"}


@pytest.mark.parametrize("learner", ["sac", "td3"])
def test_the_paper_profile_leaves_the_learners_as_table_2_has_them(learner):
    (cell,) = matrix.plan(["suite=ogbench_scene", "task=task3", f"learner={learner}"]).cells
    assert cell.section("learner") == get("learner", learner)()


@pytest.mark.parametrize("learner", ["sac", "td3"])
@pytest.mark.parametrize(("profile", "width"), [("quick", 256), ("smoke", 16)])
def test_other_profiles_shrink_either_learner(learner, profile, width):
    (cell,) = matrix.plan(["suite=ogbench_scene", f"profile={profile}", f"learner={learner}"]).cells
    chosen = cell.section("learner")
    assert (cell.names.task, chosen.hidden, chosen.ensemble, chosen.utd) == ("drawer", (width, width), 2, 1)


def test_every_value_of_every_layer_has_a_source():
    layers = [OgbenchScene.defaults, *OgbenchScene.profiles.values()]
    layers += [layer for profile in OgbenchScene.profiles.values() for layer in profile.get("by_task", {}).values()]
    for layer in layers:
        for key, value in layer.items():
            assert key in ("tasks", "by_task", "judge") or (isinstance(value, Cited) and value.source), key
    assert not fields(OgbenchScene)


def test_naming_the_suite_imports_no_environment():
    code = (
        "import sys, guidebench.suites.ogbench_scene, guidebench.suites.mujoco; "
        "print(sorted({'mujoco', 'ogbench', 'gymnasium', 'dm_control', 'torch'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


SMALL = (
    "suite=ogbench_scene", "method=vlm_rb", "judge=oracle", "training.steps=300", "evaluation.every=100",
    "evaluation.episodes=1", "seeds=[0,1]",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(train_once):
    """A study of two seeds together, from their first step to their last."""
    return train_once(*SMALL, packs=[(0, 1)], checkpoint_every=100)


@pytest.mark.slow
def test_a_smoke_run_tells_what_became_of_each_subgoal_and_has_no_phases(whole):
    rows, evaluations = results.load(whole, what="subgoals"), results.load(whole)
    assert rows["subgoal"].unique().tolist() == ["drawer"] and len(rows) == 6
    columns = ["seed", "step", "episode"]
    assert rows[columns].to_numpy().tolist() == evaluations[columns].to_numpy().tolist()
    assert rows["met"].tolist() == evaluations["success"].tolist()
    metrics = results.load(whole, what="metrics")
    assert not [name for name in metrics if name.startswith(("drawn/", "stored/"))]  # subgoals come in no order


@pytest.mark.slow
def test_stopping_and_continuing_in_another_packing_changes_no_byte(whole, train, tmp_path):
    interrupted = tmp_path / "interrupted"
    again = functools.partial(train, *SMALL, checkpoint_every=100, directory=interrupted)
    with pytest.raises(Stopped):
        again(packs=[(0, 1)], stop=(call == 241 for call in range(1, 10_000)).__next__)
    again(packs=[(1,), (0,)])

    def written(study):
        paths = [*study.glob("*/*/*/seed-*/evaluations.parquet"), *study.glob("*/*/*/seed-*/subgoals.parquet")]
        return {str(path.relative_to(study)): path.read_bytes() for path in paths}

    assert written(interrupted) == written(whole) and len(written(whole)) == 4
