"""Whole runs of the dual system: evaluated again, carried to another task; and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.loop.build import make_build
from guidebench.harness.plan import config, matrix
from guidebench.harness.playback.reevaluation import evaluate_run
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run import stages, study
from tests.refusals import check_refused

pytest.importorskip("crafter")
SCRIPTED = (
    "suite=crafter_ood", "planner=scripted", "reflector=scripted", "performer=scripted", "scorer=scripted",
    "text_embedder=scripted", "text_embedder.width=16", "agent.width=16", "suite.area=16",
)  # fmt: skip
SMALL = (
    *SCRIPTED, "suite.length=30", "suite.test_length=12", "learner.trunk=[8]", "learner.hidden=[8]",
    "learner.batch_size=8", "learner.learning_starts=16", "training.capacity=100",
)  # fmt: skip
SHORT = (*SMALL, "task=wood_sword", "training.steps=80", "evaluation.every=40", "evaluation.episodes=2")


@pytest.fixture(scope="module")
def words() -> tuple[str, ...]:
    return (*SHORT, "method=dsadf", "seeds=[0]", "agent.threshold=0")


@pytest.fixture(scope="module")
def directory(train_once: Callable[..., Path], words: tuple[str, ...]) -> Path:
    return train_once(*words, packs=[(0,)])


def test_each_step_belongs_to_one_sub_goal(directory: Path) -> None:
    plans, trials, routes = (results.load(directory, log=log) for log in ("plans", "trials", "routes"))
    assert plans["training"].notna().sum() >= 3 and plans["training"].isna().sum() == len(trials) == 4
    assert (trials["fast"] + trials["performed"] + trials["fallback"] <= trials["steps"]).all()
    of_routes, of_trials = (log.groupby(["step", "trial"])["steps"].sum().tolist() for log in (routes, trials))
    assert of_routes == of_trials


def test_its_policy_is_evaluated_again_from_the_cassette(directory: Path) -> None:
    (run,) = directory.glob("*/*/*/seed-0")
    first = evaluate_run(run, None, None, episodes=2, seed=3, models=Models(mode="record"))
    assert evaluate_run(run, None, None, episodes=2, seed=3) == first


def test_a_run_asks_about_as_often_as_expected(directory: Path, words: tuple[str, ...]) -> None:
    """Each episode of training lasts its whole length here, so reflections are as expected; others are bounds."""
    spent = results.load(directory, log="spending").groupby("role")["questions"].max()
    (cell,) = matrix.plan([*words, "profile=smoke"]).cells
    agent, cell_view = cell.section("agent"), config.cell_view(cell)
    expected = {part.role: agent.expected_usage(cell_view, part.role).calls for part in cell.models}
    assert spent["reflector"] == expected["reflector"] == 7, "three episodes of 30 begin in 80 steps, four are tests"
    assert 7 <= spent["planner"] <= expected["planner"] and set(spent.index) == set(expected)
    assert all(count <= expected[role] for role, count in spent.items()), "texts, scores and actions are bounds"


@pytest.mark.slow
def test_memory_and_network_arrive_on_another_task(tmp_path: Path) -> None:
    """The stage's memory routes the transferred run's sub-goals, and is its policy's memory at the end."""
    words = ("method=dsadf_transfer", "profile=smoke", *SMALL, "task=stone_sword", "training.steps=20")
    words += ("evaluation.every=20", "evaluation.episodes=2", "agent.threshold=0", f"output={tmp_path}", "seeds=[0]")
    stage = ("pretraining.task=wood_sword", "pretraining.training.steps=180", "pretraining.suite.length=60")
    outcome = study.carry_out(matrix.plan([*words, *stage]))
    assert outcome.finished
    first, last = outcome.runs
    assert (first.cell.names.method, last.cell.names.method) == ("dsadf", "dsadf_transfer")
    parameters = load_file(first.directory / stages.POLICY)
    skills = json.loads(parameters["memory"].tobytes().rstrip(b"\0"))
    assert skills and set(load_file(last.directory / stages.POLICY)) == set(parameters)
    assert all(
        np.array_equal(array, parameters[name]) for name, array in load_file(last.directory / stages.POLICY).items()
    )
    routes = results.load(outcome.directory, log="routes").query("task == 'stone_sword'")
    assert not routes.empty and (routes["subgoal"].isin([*skills]) == (routes["by"] == "learner")).all()
    agent = make_build(last.cell, [0], "cpu", [tmp_path / "scratch"]).parts["agent"]
    assert agent.trains is False
    build = make_build(last.cell, [0], "cpu", [tmp_path / "scratch"])
    restored = build.parts["agent"].spawn(build)
    stages.begin(last.cell, restored, StudyDirectory(outcome.directory), [0])
    assert set(restored.memories[0].skills) == set(skills)


@pytest.mark.slow
def test_the_dual_system_first_acts_as_the_policy_that_it_begins_from(tmp_path: Path) -> None:
    """APT's policy sees no sub-goal; whatever the sub-goal, System 1 starts with the values of that policy."""
    words = [word for word in SMALL if not word.startswith(("suite.length", "suite.test"))]
    words += ["method=dsadf", "profile=smoke", "task=wood_sword", "training.steps=20", "evaluation.every=20"]
    words += ["evaluation.episodes=1", "suite.length=20", "suite.test_length=12", "seeds=[0]", f"output={tmp_path}"]
    stage = ("pretraining=apt_exploration", "pretraining.training.steps=40", "pretraining.evaluation.every=40")
    stage += ("pretraining.guide.batch_size=8", "pretraining.guide.k=2")
    stage += ("suite.actions=find", "suite.impossible=masked")
    outcome = study.carry_out(matrix.plan([*words, *stage]))
    assert outcome.finished
    first, last = outcome.runs
    explorer, dual = (
        build.parts["agent"].spawn(build)
        for build in (make_build(run.cell, [0], "cpu", [tmp_path / "scratch"]) for run in (first, last))
    )
    explorer.load_parameters(0, load_file(first.directory / stages.POLICY))
    stages.begin(last.cell, dual, StudyDirectory(outcome.directory), [0])
    observations = [
        make_build(run.cell, [0], "cpu", [tmp_path]).suite(0).make("wood_sword").reset(3) for run in (first, last)
    ]
    rng, rows = np.random.default_rng(0), np.zeros(4, np.int64)
    vectors = rng.standard_normal((4, 16)).astype(np.float32)
    action_values = dual.learner.value(dual.learner_observation(np.stack([observations[1]] * 4), vectors), rows)
    assert action_values == pytest.approx([explorer.value(np.stack([observations[0]]), rows[:1])[0]] * 4, abs=1e-6)
    assert not dual.memories[0].skills
    transfer = [word for word in words if word != "method=dsadf"]
    (cell,) = matrix.plan([*transfer, "method=dsadf_transfer", *stage]).cells
    with pytest.raises(UserError, match="has no memory"):  # evaluations alone need one
        stages.check(cell)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suite.impossible=counted",), "set suite.impossible=masked"),
        (("suite.observation=symbols",), "set suite.observation=text"),
        (("suite=classic", "task=CartPole-v1"), "it asks for actions by their names"),
        (("training.demonstrations=1",), "set training.demonstrations=0"),
        (("task=free_play",), "the task 'free_play' has no goal to plan or act for"),
        (("text_embedder.width=32",), "set agent.width=32"),
        (("agent.router=model",), "set agent.trains=false too"),
        (("agent.threshold=1.5",), "agent.threshold=1.5"),
        (("scorer=scripted_planner",), "it answers in the role planner"),
        (("planner=scripted_scorer",), "it answers in the role scorer"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_any_work(words: tuple[str, ...], message: str) -> None:
    named = {word.split("=", 1)[0] for word in words}
    defaults = [word for word in SCRIPTED if word.split("=", 1)[0] not in named]
    defaults = [word for word in defaults if "suite" not in named or not word.startswith("suite.")]
    check_refused(re.escape(message), matrix.plan, [*defaults, "method=dsadf", "profile=smoke", *words])


def test_the_oracle_performs_towards_the_task_where_the_memory_leaves_sub_goals_to_it(
    train: Callable[..., Path],
) -> None:
    """Without a score every proficiency stays 0, so that System 1 has no sub-goal of its own."""
    words = (*SMALL, "task=wood_sword", "training.steps=20", "evaluation.every=20", "evaluation.episodes=1")
    words = tuple(word for word in words if not word.startswith("performer="))
    study = train(*words, "performer=oracle", "scorer.malformed=1", "seeds=[0]", "method=dsadf", packs=[(0,)])
    trials = results.load(study, log="trials")
    counts = trials[["fast", "performed", "fallback", "failed", "impossible", "unknown"]].sum()
    assert counts["performed"] > 0 and not counts[["fallback", "failed", "impossible", "unknown"]].any()
