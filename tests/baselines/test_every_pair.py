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

SMALL = ("evaluation.episodes=1", "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=16")
SHORT = (
    *SMALL, "training.steps=72", "evaluation.every=24", "learner.channels=4", "learner.features=8", "judge.delay=8",
    "seeds=[0,1]",
)  # fmt: skip
SHORTER = (
    *SMALL, "training.steps=48", "training.demonstrations=1", "evaluation.every=16", "judge.delay=8", "seeds=[0]",
)  # fmt: skip
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
def test_a_replay_with_a_learner_trains_on_grids(train, replay: str, learner: str) -> None:
    size = "8x8" if replay == "per" else "5x5"
    study = train(f"method={replay}", f"learner={learner}", f"task={size}", *judged(replay, SHORT), packs=[(0, 1)])
    paths = sorted(study.glob("*/*/*/seed-*"))
    for path in paths:
        assert len(pq.read_table(path / "evaluations.parquet")) == 3
        last = last_metrics(path)
        assert last["grad_norm"] > 0 and last["loss"] >= 0
        # every draw belongs to a phase of the task
        assert sum(last[f"drawn/{event}"] for event in ("key", "door", "goal")) == pytest.approx(1.0)
    first, second = (load_file(path / "policy.safetensors") for path in paths)
    assert any(first[name].tobytes() != second[name].tobytes() for name in first), "seeds are not alike"


@SCENE
@pytest.mark.parametrize(("replay", "learner"), [*((name, "sac") for name in registry.names("replay")), ("per", "td3")])
def test_a_replay_with_a_learner_trains_on_scene(
    train, request: pytest.FixtureRequest, replay: str, learner: str
) -> None:
    """The judged ones by the suite's own judge, which looks at frames."""
    if "judge" in registry.get("replay", replay).needs:
        request.getfixturevalue("opengl")
    given = ("suite=ogbench_scene", "task=drawer", f"method={replay}", f"learner={learner}")
    study = train(*given, *judged(replay, SHORTER), packs=[(0,)])
    (path,) = study.glob("*/*/*/seed-0")
    assert pq.read_table(path / "evaluations.parquet")["step"].to_pylist() == [16, 32, 48]
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
