from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.td3 import Td3
from guidebench.harness.interfaces import Batch
from tests.baselines.learners.continuous import SMALL, batch, build
from tests.baselines.learners.test_sac import KIND


def by_hand(**settings: Any) -> Any:
    """Linear networks of an observation (x₀, x₁) and an action: Q_i = i·x₀ + a for i = 1, 2, 3, Q̄ alike, and
    π(s) = tanh x₁, π̄(s) = tanh 100x₁."""
    learner: Any = Td3(**{**SMALL, "hidden": (), "discount": 0.5, **settings}).spawn(build())
    learner.critic.load(
        0, {"critic.0.weight": np.array([[[i], [0], [1]] for i in (1, 2, 3)]), "critic.0.bias": np.zeros((3, 1))}
    )
    learner.target.flat.copy_(learner.critic.flat)
    for actor, scale in ((learner.actor, 1), (learner.target_actor, 100)):
        actor.load(0, {"actor.0.weight": np.array([[0], [scale]]), "actor.0.bias": np.zeros(1)})
    return learner


WORKED = Batch(
    observation=np.array([[[1, 0], [1, 0], [1, 0], [2, 1]]], np.float32),
    action=np.zeros((1, 4, 1), np.float32),
    reward=np.ones((1, 4), np.float32),
    next_observation=np.array([[[1, 0], [1, 0], [1, 1], [1, 0]]], np.float32),
    terminated=np.array([[False, False, False, True]]),
    weight=None,
)
NOISE = torch.tensor([[[1.0], [-10.0], [1.0], [0.0]]])


def sampled(learner: Any) -> Any:
    sample = learner.sample(WORKED, slice(0, 1), True)
    return sample._replace(chosen=torch.tensor([[1, 2]]), next_noise=NOISE)


@pytest.mark.parametrize(("reduction", "value"), [("min", 2.0), ("mean", 2.5)])
def test_the_targets_action_is_smoothed_clipped_and_kept_in_range(reduction: str, value: float) -> None:
    """σ̃ = 0.2, c = 0.5: a′ = 0.2, then −2 cut to −0.5, then π̄ = 1 plus 0.2 cut to 1. Q̄_2,3 = (2, 3) + a′."""
    learner = by_hand(target_reduction=reduction)
    update = learner.update_critics(sampled(learner), KIND)
    y = [1 + 0.5 * (value + 0.2), 1 + 0.5 * (value - 0.5), 1 + 0.5 * (value + 1), 1.0]
    assert update.td_error[0].tolist() == pytest.approx([2 - y[0], 2 - y[1], 2 - y[2], 4 - 1], abs=1e-6)
    squares = [sum((i * x - target) ** 2 for i in (1, 2, 3)) for x, target in zip((1, 1, 1, 2), y, strict=True)]
    assert update.metrics["loss"].tolist() == pytest.approx([np.mean(squares)])


def test_the_noise_is_of_the_settings_given() -> None:
    """Q̄ of a′ = 0.1 and −0.1 is 2.1 and 1.9; δ = 2 − (1 + ½·Q̄)."""
    learner = by_hand(target_noise=0.3, noise_clip=0.1)
    update = learner.update_critics(sampled(learner), KIND)
    assert update.td_error[0, :2].tolist() == pytest.approx([2 - 2.05, 2 - 1.95], abs=1e-6)


@pytest.mark.parametrize(("reduction", "factor"), [("min", 1), ("mean", 2), ("first", 1)])
def test_the_actor_climbs_the_reduced_value(reduction: str, factor: int) -> None:
    """Q_i = i·x₀ + tanh x₁; the gradient by the actor's bias is −(1 − tanh² x₁), whatever the reduction."""
    learner = by_hand(actor_reduction=reduction)
    metrics = learner.update_actor(sampled(learner), KIND)
    assert metrics["actor_loss"].tolist() == pytest.approx(
        [-np.mean([factor, factor, factor, 2 * factor + math.tanh(1)])]
    )
    gradient = learner.gradients[0].arrays(0)["actor.0.bias"]
    assert gradient.tolist() == pytest.approx([-(3 + 1 - math.tanh(1) ** 2) / 4])


def test_both_target_networks_wait_for_the_actor() -> None:
    learner: Any = Td3(**SMALL, policy_frequency=3).spawn(build())
    for step in range(1, 7):
        before = learner.target.flat.clone(), learner.target_actor.flat.clone(), learner.actor.flat.clone()
        learner.update(batch(step), np.ones(1, bool), step)
        after = learner.target.flat, learner.target_actor.flat, learner.actor.flat
        assert [torch.equal(*pair) for pair in zip(before, after, strict=True)] == [step % 3 != 0] * 3
