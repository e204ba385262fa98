"""What the suite declares, held against what its tasks do; and a run of it."""

import gymnasium
import pytest

pytest.importorskip("ogbench")

from guidebench import results
from guidebench.harness.plan import matrix
from guidebench.harness.registry import get
from guidebench.suites.ogbench_scene import OgbenchScene


def test_the_papers_horizon_is_the_packages():
    import ogbench  # noqa: F401 - registers its environments

    for number in (3, 4, 5):
        spec = gymnasium.spec(f"scene-singletask-task{number}-v0")
        assert spec.max_episode_steps == OgbenchScene().horizon(f"task{number}")


def test_the_protocol_is_the_papers():
    values = {key: cited.value for key, cited in OgbenchScene.defaults.items() if not key.startswith("judge.")}
    assert values == {
        "training.steps": 1_000_000, "training.capacity": 1_000_000, "training.demonstrations": 10,
        "evaluation.every": 2_000, "evaluation.episodes": 32,
    }  # fmt: skip
    assert OgbenchScene.profiles["paper"] == {"tasks": ("task3", "task4", "task5")}
    assert OgbenchScene.judges == {"paper": "transformers", "scripted": "motion", "oracle": "oracle"}


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


SMALL = (
    "suite=ogbench_scene", "method=vlm_rb", "judge=oracle", "training.steps=40", "evaluation.every=20",
    "evaluation.episodes=1", "learner.batch_size=8", "learner.learning_starts=16", "seeds=[0]",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(train_once):
    return train_once(*SMALL, packs=[(0,)])


@pytest.mark.slow
def test_a_smoke_run_tells_what_became_of_each_subgoal_and_has_no_phases(whole):
    rows, evaluations = results.load(whole, log="subgoals"), results.load(whole)
    assert rows["subgoal"].unique().tolist() == ["drawer"] and len(rows) == 2
    columns = ["seed", "step", "episode"]
    assert rows[columns].to_numpy().tolist() == evaluations[columns].to_numpy().tolist()
    assert rows["met"].tolist() == evaluations["success"].tolist()
    metrics = results.load(whole, log="metrics")
    assert not [name for name in metrics if name.startswith(("drawn/", "stored/"))]  # subgoals come in no order
