"""What the suites declare, held against what their tasks do; and runs of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("metaworld")

from guidebench import results
from guidebench.harness.plan import matrix
from guidebench.harness.registry import get
from guidebench.results import published
from guidebench.suites.metaworld import BY_TURNS, MT10, PBRL, TASKS, MetaWorld, MetaWorldMT10, MetaWorldPbRL
from guidebench.suites.metaworld.words import LAGEA
from tests.refusals import check_refused

SUITES = {"metaworld": MetaWorld, "metaworld_mt10": MetaWorldMT10, "metaworld_pbrl": MetaWorldPbRL}


@pytest.mark.parametrize(
    ("suite", "task", "width"),
    (
        (MetaWorld(), "push", 39), (MetaWorld(state="reduced"), "push", 17), (MetaWorldPbRL(), "door-open", 17),
        (MetaWorldPbRL(), "reach", 9), (MetaWorldMT10(), "reach", 39), (MetaWorldMT10(), BY_TURNS, 49),
        (MetaWorldMT10(state="reduced"), BY_TURNS, 27),
    ),
)  # fmt: skip
def test_observations_have_the_widths_of_the_papers(suite: MetaWorld, task: str, width: int) -> None:
    observations, actions = suite.spaces(task)
    assert (observations.shape, actions.shape, actions.discrete, suite.horizon(task)) == ((width,), (4,), False, 500)


def test_the_presets_tasks_are_those_of_the_papers_records() -> None:
    for suite, paper in (("metaworld_mt10", "lagea"), ("metaworld_pbrl", "rl_sallm_f")):
        rows = published.load(paper)
        told = {task for each in rows[rows["suite"] == suite]["task"] for task in each.split(",")} - {"all"}
        assert told <= set(SUITES[suite].tasks)
    assert set(MT10) == {task for each in published.load("lagea")["task"] for task in each.split(",")} - {"all"}
    assert len(TASKS) == 50 and len(MT10) == 10 and len(PBRL) == 8


def test_tasks_have_the_names_of_all_versions() -> None:
    for spelt in ("button-press-v2", "button-press-v3", "button_press", "button_press_v2"):
        assert MetaWorld.aliases[spelt] == MetaWorldPbRL.aliases[spelt] == "button-press"
    for suite in SUITES.values():
        assert not set(suite.aliases) & set(suite.tasks) and set(suite.aliases.values()) <= set(suite.tasks)
    (cell,) = matrix.plan(["suite=metaworld_pbrl", "task=drawer-open-v2", "method=uer"]).cells
    assert cell.names.task == "drawer-open"


def test_the_presets_differ_from_the_suite_by_their_defaults() -> None:
    assert (MetaWorld().goal, MetaWorld().layouts, MetaWorld().reward, MetaWorld().state) == (
        "observable", "random", "dense", "full",
    )  # fmt: skip
    assert MetaWorldPbRL() == MetaWorldPbRL(goal="observable", layouts="random", reward="dense", state="reduced")
    assert MetaWorldMT10() == MetaWorldMT10(
        goal="hidden", layouts="by_goal", reward="sparse", state="full", instructions="lagea"
    )
    assert MetaWorldMT10().fixed and not MetaWorldMT10(goal="observable").fixed
    by_turns, alone = (
        matrix.plan(["suite=metaworld_mt10", f"task={task}", "method=uer"]).cells[0].section("suite")
        for task in (BY_TURNS, "reach")
    )
    assert (by_turns.goal, by_turns.fixed, by_turns.reward) == ("observable", False, "dense")
    assert alone == MetaWorldMT10()


def test_the_protocols_are_the_papers() -> None:
    (cell,) = matrix.plan(["suite=metaworld_pbrl", "task=reach", "method=uer"]).cells
    learner = cell.section("learner")
    assert cell.steps == 500_000 and learner == get("learner", "sac")(
        hidden=(256, 256, 256), batch_size=512, actor_lr=3e-4, critic_lr=3e-4, alpha_lr=1e-4, alpha=0.1,
        target_rate=0.005, target_frequency=2, log_std="tanh", log_std_min=-5.0, initialisation="orthogonal",
        target_entropy_scale=1.0, learning_starts=1_000,
        ensemble=2, subset=2, target_reduction="min", actor_reduction="min", layer_norm=False, max_grad_norm=None,
        utd=1, actor_utd=1,
    )  # fmt: skip
    cells = matrix.plan(["suite=metaworld_mt10", "method=uer"]).cells
    assert [cell.names.task for cell in cells] == list(MT10)
    learner, training = cells[0].section("learner"), cells[0].section("training")
    assert (training.steps, training.capacity, cells[0].section("evaluation").every) == (1_000_000, 500_000, 100_000)
    assert (learner.hidden, learner.batch_size, learner.actor_lr, learner.target_rate) == ((256, 256), 256, 1e-4, 0.01)
    assert (learner.target_entropy_scale, learner.learning_starts) == (0.5, 10_000)


@pytest.mark.parametrize(("suite", "task"), [("metaworld_pbrl", "button-press"), ("point_maze", "umaze")])
def test_a_shortened_profile_asks_all_queries_of_its_budget_and_the_papers_as_many_as_fit(
    suite: str, task: str
) -> None:
    """From 10,000 on a session of 20 every 5,000 of 500,000 steps: 98 sessions."""
    for profile, most in (("paper", 1_960), ("quick", None), ("smoke", None)):
        plan = matrix.plan([f"suite={suite}", f"task={task}", "method=pebble", f"profile={profile}"])
        (cell,) = plan.cells
        guide = cell.section("guide")
        parts = {name: cell.section(name) for name in ("training", "learner")}
        assert guide.planned(parts) == (most or guide.budget), profile


def test_tasks_are_told_in_our_words_or_in_those_of_lageas_table() -> None:
    assert MetaWorld().make("reach").instruction == "move the gripper to the mark in the air"
    assert MetaWorld(instructions="lagea").make("reach").instruction == "Reach a goal position."
    assert MetaWorldMT10().make("peg-insert-side").instruction == "Insert the peg into the side hole."
    turns = MetaWorldMT10(goal="observable").make(BY_TURNS)
    seen = set()
    for seed in range(40):
        turns.reset(seed)
        seen.add(turns.instruction)
    assert seen <= set(LAGEA.values()) and len(seen) > 5 and set(LAGEA) == set(MT10)
    check_refused(
        "table 4 has no instruction for 'button-press'; choose a task of MT10",
        matrix.plan,
        ["suite=metaworld_pbrl", "task=button-press", "method=uer", "suite.instructions=lagea"],
    )


def test_runs_tell_of_success_at_any_step_and_of_each_task(train: Callable[..., Path]) -> None:
    short = (
        "training.steps=20",
        "learner.learning_starts=10",
        "learner.batch_size=8",
        "learner.hidden=[8]",
        "evaluation.every=20",
        "seeds=[0]",
    )

    def rows(*which: str) -> pd.DataFrame:
        found: Any = results.load(train(*which, "method=uer", *short, packs=[(0,)]), log="subgoals")
        return found

    alone = rows("suite=metaworld_pbrl", "task=reach", "evaluation.episodes=1")
    assert alone["subgoal"].unique().tolist() == ["success_any"] and alone["step"].unique().tolist() == [20]
    by_turns = rows("suite=metaworld_mt10", "task=mt10", "evaluation.episodes=4")
    assert set(by_turns["subgoal"]) <= {*MT10, "success_any"} and by_turns["subgoal"].nunique() >= 2
