"""Every replay works with every learner where the learner's actions are, on grids and on MuJoCo: it learns, evaluates,
says what it drew. What does not fit is refused by name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.plan import matrix
from tests.logs import logged
from tests.there import there

SHORT = ("training.steps=144", "evaluation.every=48", "learner.learning_starts=64", "judge.delay=16", "seeds=[0,1]")
SHORTER = (
    "training.steps=96",
    "training.demonstrations=1",
    "evaluation.every=32",
    "evaluation.episodes=1",
    "learner.batch_size=16",
    "learner.learning_starts=48",
    "judge.delay=16",
    "seeds=[0]",
)
REPLAYS = pytest.mark.parametrize("replay", registry.names("replay"))
SCENE = pytest.mark.skipif(importlib.util.find_spec("ogbench") is None, reason="the extra mujoco is missing")


def fitting(suite: str, task: str) -> list[str]:
    """The learners that take a task's observations and actions."""
    spaces = registry.get("suite", suite)().spaces(task)
    return [
        name for name in registry.names("learner") if not registry.get("learner", name)().fits(there(None, "", *spaces))
    ]


def judged(replay: str, settings: tuple[str, ...]) -> list[str]:
    """Without the judge's settings for a replay that asks none."""
    asks = "judge" in registry.get("replay", replay).needs
    return [text for text in settings if asks or not text.startswith("judge")]


def last_metrics(run: Path) -> dict[str, Any]:
    return logged(run, "metrics")[-1]


@pytest.mark.parametrize("learner", fitting("minigrid_doorkey", "5x5"))
@REPLAYS
def test_a_replay_with_a_learner_trains_on_5x5_6x6_and_8x8(train, replay: str, learner: str) -> None:
    settings = judged(replay, SHORT)
    study = train(f"method={replay}", f"learner={learner}", "task=5x5,6x6,8x8", *settings, packs=[(0, 1)])
    found = sorted(study.glob("*/*/*/seed-*"))
    assert [path.parts[-3] for path in found] == ["5x5", "5x5", "6x6", "6x6", "8x8", "8x8"]
    for path in found:
        assert len(pq.read_table(path / "evaluations.parquet")) == 3 * 2
        last = last_metrics(path)
        assert last["grad_norm"] > 0 and last["loss"] >= 0
        # every draw belongs to a phase of the task
        assert sum(last[f"drawn/{event}"] for event in ("key", "door", "goal")) == pytest.approx(1.0)
    first, second = (load_file(path / "policy.safetensors") for path in found[:2])
    assert any(first[name].tobytes() != second[name].tobytes() for name in first), "seeds are not alike"


@SCENE
@pytest.mark.parametrize("learner", fitting("ogbench_scene", "drawer"))
@REPLAYS
def test_a_replay_with_a_learner_trains_on_scene_with_a_demonstration(
    train, request: pytest.FixtureRequest, replay: str, learner: str
) -> None:
    """The judged ones by the suite's own judge, which looks at frames."""
    if "judge" in registry.get("replay", replay).needs:
        request.getfixturevalue("opengl")
    given = ("suite=ogbench_scene", "task=drawer", f"method={replay}", f"learner={learner}")
    study = train(*given, *judged(replay, SHORTER), packs=[(0,)])
    (path,) = study.glob("*/*/*/seed-0")
    assert pq.read_table(path / "evaluations.parquet")["step"].to_pylist() == [32, 64, 96]
    last = last_metrics(path)
    assert last["grad_norm"] > 0 and last["actor_grad_norm"] > 0 and last["loss"] >= 0
    if "judge" in registry.get("replay", replay).needs:
        assert last["replay/judged_share"] > 0


@pytest.mark.parametrize(("suite", "task"), [("minigrid_doorkey", "5x5"), ("ogbench_scene", "drawer")])
@REPLAYS
def test_a_learner_of_other_actions_is_refused_by_name_with_every_replay(replay: str, suite: str, task: str) -> None:
    others = set(registry.names("learner")) - set(fitting(suite, task))
    assert others
    for learner in others:
        says = f"learner '{learner}' does not fit suite '{suite}', task '{task}': it needs"
        with pytest.raises(UserError, match=says):
            matrix.plan([f"suite={suite}", f"task={task}", f"method={replay}", f"learner={learner}"])


@pytest.mark.parametrize("learner", fitting("ogbench_scene", "drawer"))
@pytest.mark.parametrize(
    ("replay", "setting", "says"),
    [
        ("aer", "learner.hidden=[]", "replay 'aer' does not fit .*has none for vectors without"),
        ("ero", "evaluation.every=500000", "replay 'ero' does not fit .*fewer than two before the end"),
    ],
)
def test_what_a_replay_lacks_on_scene_is_named(learner: str, replay: str, setting: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        matrix.plan(["suite=ogbench_scene", "task=task3", f"method={replay}", f"learner={learner}", setting])
