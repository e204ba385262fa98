"""A reward learnt from a scripted teacher's preferences, on MetaWorld: good trajectories rank above worse ones."""

from __future__ import annotations

import numpy as np
import pytest

from guidebench.baselines.preference.rewards import Preferences, RewardEnsemble
from guidebench.baselines.preference.seeing import States
from guidebench.harness import registry
from tests.baselines.building import build

TASK, LENGTH, STEPS = "button-press", 10, 150
SUITE = registry.get("suite", "metaworld_pbrl")()


def trajectory(seed: int, clumsy: float) -> tuple[np.ndarray, np.ndarray]:
    """The expert's, some of whose moves are random: states [T, 17] and rewards [T]."""
    pytest.importorskip("metaworld")
    task, rng = SUITE.make(TASK), np.random.default_rng(seed)
    observation, states, rewards = task.reset(seed), [], []
    for _ in range(STEPS):
        states.append(observation)
        step = task.step(rng.uniform(-1, 1, 4) if rng.random() < clumsy else task.expert())
        observation = step.observation
        rewards.append(step.reward)
    return np.stack(states), np.array(rewards, np.float32)


def test_the_learnt_reward_ranks_an_experts_trajectory_above_a_suboptimal_one() -> None:
    rng = np.random.default_rng(0)
    shown = [trajectory(seed, clumsy) for seed, clumsy in enumerate((0.0, 0.5, 0.9, 1.0) * 2)]
    preferences = Preferences(LENGTH, 17)
    pairs, labels = [], []
    for _ in range(300):
        one, other = (
            (states[start : start + LENGTH], rewards[start : start + LENGTH].sum())
            for states, rewards in (shown[chosen] for chosen in rng.integers(len(shown), size=2))
            for start in [rng.integers(STEPS - LENGTH)]
        )
        pairs.append(np.stack([one[0], other[0]]))
        labels.append(float(other[1] > one[1]))
    preferences.add(pairs, labels)
    observations, actions = SUITE.spaces(TASK)
    made = build(seeds=(0,), space=observations, actions=actions)
    ensemble = RewardEnsemble(made, States(made, (64, 64)).network, 3, 1e-3, 64, 0.0)
    ensemble.train([preferences], np.array([True]), [made.streams[0].teach], 20, 0.97)

    def returns(seed: int, clumsy: float) -> tuple[float, float]:
        states, rewards = trajectory(seed, clumsy)
        return float(ensemble.reward(states[None])[0].sum()), float(rewards.sum())

    for seed in (100, 101, 102):  # layouts that it has not seen
        (learnt_best, best), (learnt_worse, worse) = returns(seed, 0.0), returns(seed, 0.8)
        assert best > worse and learnt_best > learnt_worse
