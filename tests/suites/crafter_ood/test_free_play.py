"""The task without a goal: its ends, its score, and what refuses it."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from guidebench import results
from guidebench.harness.capabilities import HasExpert, demonstrates, shows_goal
from guidebench.harness.commands import cli
from guidebench.harness.episodes.solvers import solver
from guidebench.harness.plan import matrix
from guidebench.suites.crafter.game import ACHIEVEMENTS
from guidebench.suites.crafter_ood import CrafterOod
from tests.refusals import check_refused
from tests.suites.crafter_ood.conftest import put

MASKED = {"impossible": "masked", "actions": "find", "observation": "text"}


def unlocked(task):
    return [name for name, done in task.subgoals().items() if done]


def test_it_has_the_spaces_of_the_other_tasks_and_is_in_no_profiles_tasks():
    for settings in ({}, MASKED):
        suite = CrafterOod(**settings)
        assert suite.spaces("free_play") == suite.spaces("deforestation")
        assert suite.action_names("free_play") == suite.action_names("deforestation")
    assert CrafterOod.pretraining == "free_play" and "free_play" in CrafterOod.tasks
    assert all("free_play" not in profile["tasks"] for profile in CrafterOod.profiles.values())


def test_achievements_are_its_score_and_neither_reward_nor_success_nor_an_event(field, act):
    task = field("free_play")
    assert (task.score(), task.completion(), list(task.subgoals())) == (0, 0, list(ACHIEVEMENTS))
    put(task, "tree")
    step = act(task, "chop tree")
    assert unlocked(task) == ["collect_wood"] and (task.score(), task.completion()) == (1, 1 / 22)
    assert (step.reward, step.success, step.terminated) == (0, False, False) and not task.events().any()
    put(task, "tree")
    act(task, "chop tree")
    assert task.score() == 1, "an achievement counts once"
    put(task, "water")
    act(task, "drink water")
    assert unlocked(task) == ["collect_drink", "collect_wood"]
    assert task.outcomes() == {"completion": 2 / 22, "alive": 1, "impossible actions": 0}
    task.reset()
    assert task.score() == 0 and not unlocked(task)


def test_it_ends_by_death_or_its_length_and_counts_achievements_over_all_lives(field, act):
    task = field("free_play", length=2)
    assert not act(task, "do nothing").truncated and act(task, "do nothing").truncated
    task = field("free_play")
    put(task, "lava")
    step = act(task, "move down")
    assert step.terminated and not step.success and step.reward == 0 and task.outcomes()["alive"] == 0
    task = field("free_play", death="restart", length=5)
    put(task, "tree")
    act(task, "chop tree")
    put(task, "lava")
    assert not act(task, "move down").terminated and task.deaths == 1 and task._game.unlocked == set()
    put(task, "water")
    act(task, "drink water")
    assert unlocked(task) == ["collect_drink", "collect_wood"] and task.score() == 2
    other = CrafterOod(death="restart", length=5, area=32).make("free_play")
    other.reset(7)
    other.load_state(task.state())
    assert other.score() == 2
    act(task, "do nothing")
    assert act(task, "do nothing").truncated


def test_whatever_needs_the_scripted_player_or_a_goal_is_refused(capsys):
    suite = CrafterOod()
    assert not demonstrates(suite, "free_play") and demonstrates(suite, "deforestation")
    assert not shows_goal(suite, "free_play") and shows_goal(suite, "deforestation")
    task = suite.make("free_play")
    assert not isinstance(task, HasExpert) and isinstance(suite.make("deforestation"), HasExpert)
    for call in (
        lambda: suite.demonstrate("free_play", 0),
        lambda: suite.goal_snapshot("free_play", 0),
        lambda: solver(suite, "free_play", task, 0),
    ):
        check_refused(r"'free_play' of suite crafter_ood has no goal.*choose another task", call)
    words = ["suite=crafter_ood", "task=free_play", "profile=smoke"]
    for more, message in (
        (["method=expert"], "no solver comes with the task 'free_play'"),
        (["method=vlm_rb", "judge=oracle"], "the task 'free_play' has no goal, so no event occurs in it"),
        (["training.demonstrations=1"], "no solver that demonstrates the task 'free_play'"),
    ):
        check_refused(message, matrix.plan, [*words, *more])


def test_a_run_is_scored_by_achievements(train, capsys):
    words = ["suite=crafter_ood", "task=free_play", "method=random", "seeds=[0]", "suite.area=32"]
    sizes = ["suite.test_length=400", "training.steps=1", "evaluation.every=1", "evaluation.episodes=3"]
    study = train(*words, *sizes, packs=[(0,)])
    rows = results.load(study)
    assert not rows["success"].any() and (rows["return"] == 0).all()
    assert rows["score"].between(0, 22).all() and rows["score"].max() > 0
    assert set(results.load(study, log="subgoals")["subgoal"]) == set(ACHIEVEMENTS)
    assert cli.main(["report", str(study)]) == 0
    assert "achievements" in capsys.readouterr().out
    completion = results.load(study, log="outcomes").query("outcome == 'completion'")["value"].mean()
    assert np.isclose(completion, rows["score"].mean() / 22)
