"""Replays work with learners of both kinds of actions, on grids and on MuJoCo: they learn, evaluate, and say what was
drawn. What does not fit is refused by name."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from guidebench.harness import registry
from guidebench.harness.plan import matrix
from tests.cell_views import cell_view
from tests.logs import log_rows
from tests.refusals import check_refused

SMALL = ("evaluation.episodes=1", "learner.hidden=[8]", "learner.batch_size=8", "learner.learning_starts=16")
SHORT = (
    *SMALL, "training.steps=72", "evaluation.every=24", "learner.channels=4", "learner.features=8", "judge.delay=8",
    "seeds=[0,1]",
)  # fmt: skip
SHORTER = (
    *SMALL, "training.steps=48", "training.capacity=100", "evaluation.every=16", "seeds=[0]",
)  # fmt: skip


def fitting(suite: str, task: str) -> list[str]:
    """Return the learners that take a task's observations and actions."""
    spaces = registry.get("suite", suite)().spaces(task)
    return [
        name
        for name in registry.names("learner")
        if not registry.get("learner", name)().fits(cell_view(None, "", *spaces))
    ]


def judged(replay: str, settings: tuple[str, ...]) -> list[str]:
    """Return the settings without the judge's, if the replay asks none."""
    asks = "judge" in registry.get("replay", replay).needs
    return [text for text in settings if asks or not text.startswith("judge")]


def last_metrics(run: Path) -> dict[str, Any]:
    return log_rows(run, "metrics")[-1]


@pytest.mark.parametrize(
    ("replay", "learner"), [*zip(registry.names("replay"), itertools.cycle(fitting("minigrid_doorkey", "5x5")))]
)
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


@pytest.mark.parametrize(("replay", "learner"), [("aer", "sac"), ("ero", "sac"), ("relo", "td3")])
def test_a_replay_with_a_learner_trains_on_mujoco(train, replay: str, learner: str) -> None:
    pytest.importorskip("gymnasium_robotics")
    command = ("suite=point_maze", "task=umaze", "suite.steps=20", f"method={replay}", f"learner={learner}")
    study = train(*command, *SHORTER, packs=[(0,)])
    (path,) = study.glob("*/*/*/seed-0")
    assert pq.read_table(path / "evaluations.parquet")["step"].to_pylist() == [16, 32, 48]
    last = last_metrics(path)
    assert last["grad_norm"] > 0 and last["actor_grad_norm"] > 0 and last["loss"] >= 0


@pytest.mark.parametrize(("suite", "task"), [("minigrid_doorkey", "5x5"), ("ogbench_scene", "drawer")])
def test_a_learner_of_other_actions_is_refused_by_name(suite: str, task: str) -> None:
    others = set(registry.names("learner")) - set(fitting(suite, task))
    assert others
    for learner in others:
        says = f"learner '{learner}' does not fit suite '{suite}', task '{task}': it needs"
        check_refused(says, matrix.plan, [f"suite={suite}", f"task={task}", "method=per", f"learner={learner}"])


@pytest.mark.parametrize(
    ("replay", "setting", "says"),
    [
        ("aer", "learner.hidden=[]", "replay 'aer' does not fit .*has none for vectors without"),
        ("ero", "evaluation.every=500000", "replay 'ero' does not fit .*fewer than two before the end"),
    ],
)
def test_what_a_replay_lacks_on_scene_is_named(replay: str, setting: str, says: str) -> None:
    check_refused(says, matrix.plan, ["suite=ogbench_scene", "task=task3", f"method={replay}", "learner=sac", setting])
