"""Rewards computed from observations alone, compared with a task's own in episodes of the expert and of random play."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("metaworld")

from guidebench.harness.interfaces import Array
from guidebench.suites.metaworld import PBRL, MetaWorld, MetaWorldMT10, MetaWorldPbRL

CLOSE = {  # task -> least correlation, largest mean error
    "button-press": (0.999, 0.05),
    "drawer-open": (0.999, 0.01),
    "drawer-close": (0.999, 0.1),
    "door-open": (0.98, 0.3),
    "door-unlock": (0.999, 0.05),
    "window-open": (0.90, 1.0),
    "handle-pull": (0.98, 0.15),
    "reach": (0.999, 0.05),
}


def play_episodes(suite: MetaWorld, name: str, episodes: int = 2, steps: int = 120) -> tuple[Array, Array]:
    """Return observations and rewards of episodes that are played by the expert and at random in turn."""
    task: Any = suite.make(name)
    observations, rewards = [], []
    for number in range(episodes):
        task.reset(300 + number)
        random = np.random.default_rng(number)
        for _ in range(steps):
            step = task.step(np.float32(random.uniform(-1, 1, 4)) if number % 2 else task.expert())
            observations.append(step.observation)
            rewards.append(step.reward)
    return np.array(observations), np.array(rewards)


@pytest.mark.parametrize("name", PBRL)
def test_rewards_of_reduced_states_are_near_the_tasks_own(name: str) -> None:
    assert set(CLOSE) == set(PBRL)
    suite = MetaWorldPbRL()
    observations, true = play_episodes(suite, name)
    rewards = suite.rewards(name, observations)
    correlation, error = CLOSE[name]
    assert rewards.shape == true.shape and rewards.dtype == np.float64
    assert np.corrcoef(true, rewards)[0, 1] > correlation and np.abs(true - rewards).mean() < error


def test_full_states_and_hidden_fixed_goals_tell_the_same() -> None:
    observations, _ = play_episodes(MetaWorld(layouts="fixed", layout=2), "button-press", 1, 20)
    rewards = MetaWorld().rewards("button-press", observations)
    hidden = observations.copy()
    hidden[:, -3:] = 0
    fixed = MetaWorld(goal="hidden", layouts="fixed", layout=2)
    np.testing.assert_allclose(fixed.rewards("button-press", hidden), rewards, rtol=1e-5)


def test_sparse_reward_follows_success() -> None:
    suite = MetaWorld(reward="sparse")
    observations, true = play_episodes(suite, "reach", 1, 80)
    rewards = suite.rewards("reach", observations)
    assert set(rewards) == {-1.0, 0.0} and (rewards != true).mean() < 0.05


def test_what_does_not_follow_from_an_observation_is_no_number() -> None:
    observation = np.zeros((2, 39), np.float32)
    assert np.isnan(MetaWorld().rewards("push", observation)).all(), "the reward depends on the block's first position"
    assert np.isnan(MetaWorld(goal="hidden").rewards("reach", observation)).all()
    assert np.isnan(MetaWorldMT10().rewards("mt10", np.zeros((2, 49), np.float32))).all()
    observation[1, 4] = np.nan
    assert np.isnan(MetaWorld().rewards("reach", observation)).tolist() == [False, True]


def test_states_that_cannot_be_have_a_reward_too() -> None:
    """An imagined segment may contain any numbers."""
    wild = np.random.default_rng(0).uniform(-3, 3, (50, 17)).astype(np.float32)
    for name in PBRL[:-1]:
        rewards = MetaWorldPbRL().rewards(name, wild)
        assert np.isfinite(rewards).all() and (rewards >= 0).all() and (rewards <= 10).all(), name
