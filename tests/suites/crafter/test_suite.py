"""The suite's declarations agree with what its task does; runs of it."""

import numpy as np
import pytest

pytest.importorskip("crafter")

from crafter import constants

from guidebench.harness.loop.evaluation import scored
from guidebench.harness.plan import matrix
from guidebench.suites.crafter import ACTIONS, EVENTS, Crafter
from tests.refusals import check_refused


def test_actions_and_events_are_the_packages():
    assert len(constants.actions) == ACTIONS == Crafter().spaces("game")[1].count
    assert tuple(constants.achievements) == EVENTS


def test_reward_events_and_score_are_the_packages(peer):
    task, package_env, random = Crafter().make("game"), peer(11), np.random.default_rng(2)
    task.reset(11)
    package_env.reset()
    unlocked, rewarded = set(), 0
    while True:
        action = int(random.integers(17))
        step = task.step(action)
        _, reward, done, info = package_env.step(action)
        assert step.reward == reward and step.terminated == (info["discount"] == 0) == done and not step.truncated
        new = {name for name, count in info["achievements"].items() if count and name not in unlocked}
        assert {name for name, is_met in zip(EVENTS, task.events(), strict=True) if is_met} == new
        unlocked |= new
        rewarded += bool(new)
        if done:
            break
    assert rewarded and {name for name, is_met in task.subgoals().items() if is_met} == unlocked
    assert task.score() == len(unlocked) and not step.success
    assert scored(Crafter.scores["game"], task, False, 0.0) == len(unlocked)


def test_an_episode_is_truncated_at_its_length_and_succeeds_with_all_achievements():
    task = Crafter(length=3).make("game")
    task.reset(0)
    assert [task.step(0).truncated for _ in range(3)] == [False, False, True]
    task.reset()
    player = task._game.player
    player.achievements.update(dict.fromkeys(EVENTS[1:], 1))
    assert not task.step(0).success
    player.achievements[EVENTS[0]] = 1
    step = task.step(0)
    assert step.success and task.score() == 22 and task.events().tolist() == [True] + [False] * 21


def test_outcomes_are_the_share_of_achievements_and_whether_the_player_lives():
    task = Crafter().make("game")
    task.reset(0)
    assert task.outcomes() == {"completion": 0, "alive": 1}
    task._game.player.achievements.update(dict.fromkeys(EVENTS[:11], 1))
    task.step(0)
    assert task.outcomes() == {"completion": 0.5, "alive": 1}
    task._game.player.health = 0
    assert task.step(0).terminated and task.outcomes() == {"completion": 0.5, "alive": 0}


def test_the_second_episode_follows_from_the_first_seed(peer):
    task, package_env = Crafter().make("game"), peer(8)
    for seed in (8, None, None):
        task.reset(seed)
        package_env.reset()
        assert np.array_equal(task._game.semantic(), package_env._sem_view())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"area": 10, "view": 11}, r"suite.area=10 is smaller than suite.view=11"),
        ({"size": 17}, r"suite.size=17 pixels are too few for suite.view=9 cells.*at least 18"),
        ({"view": 4}, r"suite.view=4: expected int in \[5, 63\]"),
        ({"observation": "words"}, r"suite.observation=words: expected one of 'symbols'"),
    ],
)
def test_a_world_that_cannot_be_is_refused(settings, message):
    check_refused(message, Crafter, **settings)


def test_profiles_observe_symbols_and_the_papers_pixels():
    for profile, kind in (("paper", "pixels"), ("quick", "symbols"), ("smoke", "symbols")):
        (cell,) = matrix.plan(["suite=crafter", f"profile={profile}", "seeds=1"]).cells
        assert cell.section("suite").observation == kind


def test_a_learner_that_cannot_read_text_is_refused():
    check_refused(
        "part 'text' of the observations", matrix.plan, ["suite=crafter", "suite.observation=text", "profile=smoke"]
    )
