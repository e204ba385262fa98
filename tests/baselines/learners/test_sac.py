from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.actor_critic.sample import Kind
from guidebench.baselines.learners.sac import Sac
from guidebench.baselines.learners.sac.learner import tanh_gaussian
from guidebench.harness.interfaces import Batch
from tests.baselines.learners.continuous import SMALL, batch, build
from tests.refusals import check_refused

PEAK = -0.5 * math.log(2 * math.pi)
"""log N(0; 0, 1), which is also log π(0) of a = tanh u with μ = 0, σ = 1: the slope of tanh at 0 is 1."""


KIND = Kind(0, True, (False,), "error", False, (True,))
"""The kind of an update that moves critics and actor and no target network."""


def by_hand(**settings: Any) -> Any:
    """Linear networks of an observation (x₀, x₁) and an action: Q_i = i·x₀ + a for i = 1, 2, 3, Q̄ alike, and a policy
    with μ = x₁, σ = 1."""
    fields = {**SMALL, "hidden": (), "discount": 0.5, "alpha": 0.5, "layer_norm": False, **settings}
    learner: Any = Sac(**fields).spawn(build())
    learner.critic.load(
        0, {"critic.0.weight": np.array([[[i], [0], [1]] for i in (1, 2, 3)]), "critic.0.bias": np.zeros((3, 1))}
    )
    learner.target.flat.copy_(learner.critic.flat)
    learner.actor.load(0, {"actor.0.weight": np.array([[0, 0], [1, 0]]), "actor.0.bias": np.zeros(2)})
    return learner


WORKED = Batch(
    observation=np.array([[[1, 0], [2, 0]]], np.float32),
    action=np.array([[[0.5], [0]]], np.float32),
    reward=np.array([[1, 1]], np.float32),
    next_observation=np.array([[[1, 0], [5, 0]]], np.float32),
    terminated=np.array([[False, True]]),
    weight=None,
)
"""Q_i(s, a) = 1.5, 2.5, 3.5 and 2, 4, 6. At s′ = (1, 0) with ε = 0: a′ = 0, Q̄_i = 1, 2, 3, log π = PEAK."""


def sampled(learner: Any, transitions: Batch = WORKED, chosen: tuple[int, ...] = (0, 2), noise: float = 0.0) -> Any:
    sample = learner.sample(transitions, slice(0, 1), True)
    return sample._replace(
        chosen=torch.tensor([chosen]),
        next_noise=torch.zeros_like(sample.next_noise),
        noise=torch.full_like(sample.noise, noise),
    )


@pytest.mark.parametrize(("reduction", "value"), [("mean", 2.0), ("min", 1.0)])
def test_the_target_is_of_the_chosen_critics_and_pays_for_entropy(reduction: str, value: float) -> None:
    """y = 1 + ½·(value − ½·PEAK), then 1; δ = mean Q − y; the loss sums squares over critics, means over the batch."""
    learner = by_hand(target_reduction=reduction, critic_lr=0)
    y = 1 + 0.5 * (value - 0.5 * PEAK)
    update = learner.update_critics(sampled(learner), KIND)
    assert update.td_error[0].tolist() == pytest.approx([2.5 - y, 4 - 1])
    squares = [sum((q - y) ** 2 for q in (1.5, 2.5, 3.5)), sum((q - 1) ** 2 for q in (2, 4, 6))]
    assert update.metrics["loss"].tolist() == pytest.approx([np.mean(squares)])
    assert update.metrics["q_mean"].tolist() == pytest.approx([(2.5 + 4) / 2])
    assert update.reducible[0].tolist() == pytest.approx([0, 0], abs=1e-6)  # Q̄ = Q
    learner.target.flat.mul_(2)  # Q̄(s, a) = 5 and 8; the chosen critics at s′ double too
    y = 1 + 0.5 * (2 * value - 0.5 * PEAK)
    less = learner.update_critics(sampled(learner), KIND).reducible[0].tolist()
    assert less == pytest.approx([abs(2.5 - y) - abs(5 - y), 3 - 7], abs=1e-5)
    # Q_i = 1.5, 2.5, 3.5 and 2, 4, 6, Q̄_i twice these: sums of squares over critics
    less = learner.update_critics(sampled(learner), KIND._replace(reducible="loss")).reducible[0].tolist()
    first = sum((q - y) ** 2 - (2 * q - y) ** 2 for q in (1.5, 2.5, 3.5))
    assert less == pytest.approx([first, (1 + 9 + 25) - (9 + 49 + 121)], rel=1e-5)


def test_weights_scale_the_critics_losses_but_not_td_errors() -> None:
    learner = by_hand()
    transitions = WORKED._replace(weight=np.array([[0, 0.5]], np.float32))
    update = learner.update_critics(sampled(learner, transitions), KIND._replace(reducible=None))
    assert update.metrics["loss"].tolist() == pytest.approx([0.5 * (1 + 9 + 25) / 2])
    assert update.td_error[0, 1].item() == pytest.approx(3) and update.reducible is None


@pytest.mark.parametrize(("reduction", "values"), [("mean", (2, 4)), ("min", (1, 2)), ("first", (1, 2))])
def test_the_actor_gains_value_and_entropy(reduction: str, values: tuple[float, float]) -> None:
    """At μ = 0, ε = 0: a = 0, Q_i = i·x₀, log π = PEAK; the loss is the mean of ½·PEAK − Q."""
    learner = by_hand(actor_reduction=reduction)
    metrics, log_probability = learner.update_actor(sampled(learner), KIND)
    assert metrics["actor_loss"].tolist() == pytest.approx([0.5 * PEAK - np.mean(values)])
    assert log_probability.tolist() == pytest.approx([PEAK])


def test_the_actors_gradient_goes_through_the_action_and_its_log_probability() -> None:
    """With ε = 1, μ = 0, σ = 1: a = tanh 1, Q = … + a. For the bias of μ: d(α log π − Q)/du with
    d log π/du = 2 tanh u and dQ/du = 1 − tanh² u; for that of log σ: −α more, and both times ε·σ = 1."""
    learner = by_hand()
    learner.update_actor(sampled(learner, noise=1.0), KIND)
    t = math.tanh(1)
    through = 0.5 * 2 * t - (1 - t * t)
    gradient = learner.gradients[0].arrays(0)["actor.0.bias"]
    assert gradient.tolist() == pytest.approx([through, through - 0.5], abs=1e-6)


def gaussian(head: Any, noise: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mean, log_std = torch.tensor(head).chunk(2, 2)
    return tanh_gaussian(mean, log_std, torch.tensor(noise))


def test_log_probability_of_a_squashed_gaussian() -> None:
    """μ = 0, σ = 1, ε = 1: log N = PEAK − ½, log(1 − tanh² 1) = −0.867562; then two dimensions, σ = e and ε = −1."""
    action, log_probability = gaussian([[[0.0, 0.0]]], [[[1.0]]])
    assert action.item() == pytest.approx(0.761594) and log_probability.item() == pytest.approx(
        PEAK - 0.5 + 0.867562, abs=1e-5
    )
    action, log_probability = gaussian([[[0.0, 2.0, 0.0, 1.0]]], [[[1.0, -1.0]]])
    second = 2 - math.e
    expected = 2 * PEAK - 1 - 1 - math.log(1 - math.tanh(1) ** 2) - math.log(1 - math.tanh(second) ** 2)
    assert action.flatten().tolist() == pytest.approx([math.tanh(1), math.tanh(second)])
    assert log_probability.item() == pytest.approx(expected, abs=1e-5)


def test_its_density_integrates_to_one_and_stays_finite_at_the_edge() -> None:
    noise = torch.linspace(-8, 8, 4001, dtype=torch.float64).view(1, -1, 1)
    head = torch.tensor([0.3, math.log(0.5)], dtype=torch.float64).expand(1, 4001, 2)
    action, log_probability = tanh_gaussian(*head.chunk(2, 2), noise)
    assert np.trapezoid(log_probability[0].exp(), action[0, :, 0]) == pytest.approx(1, abs=1e-6)
    action, log_probability = gaussian([[[50.0, 0.0]]], [[[0.0]]])
    assert action.item() == 1 and log_probability.item() == pytest.approx(PEAK + 2 * (50 - math.log(2)), rel=1e-6)


def deviation(output: float, **settings: Any) -> float:
    """Return log σ where the actor outputs `output` for it, recovered from the action of μ = 0 and ε = 1."""
    learner: Any = Sac(**SMALL, **settings).spawn(build())
    learner.actor_network = lambda views, observation: torch.tensor([[[0.0, output]]], dtype=torch.float64)
    return math.log(math.atanh(learner.explore(0, torch.zeros(1, 1, 2), torch.ones(1, 1, 1)).item()))


def test_the_actors_output_is_clamped_to_log_sigma_or_mapped_into_its_range() -> None:
    """B-Pref: −5 + 3.5·(tanh x + 1), so that an untrained actor has σ = e^−1.5 = .22."""
    assert deviation(-9.0) == pytest.approx(-9) and deviation(-9.0, log_std_min=-5.0) == pytest.approx(-5)
    assert deviation(0.5) == pytest.approx(0.5) and deviation(0.9, log_std_min=-5.0) == pytest.approx(0.9)
    mapped = {"log_std": "tanh", "log_std_min": -5.0}
    assert deviation(0.0, **mapped) == pytest.approx(-1.5)
    assert deviation(-0.5, **mapped) == pytest.approx(-1.5 - 3.5 * math.tanh(0.5))
    assert deviation(-9.0, **mapped) == pytest.approx(-5, abs=1e-6)
    softened = {"log_std": "softplus"}
    assert deviation(0.0, **softened) == pytest.approx(math.log(math.log(2) + 1e-3))
    assert deviation(-30.0, **softened) == pytest.approx(math.log(1e-3), abs=1e-4)
    check_refused(r"learner.log_std=exp: expected one of 'clamp', 'tanh', 'softplus'", Sac, log_std="exp")


@pytest.mark.parametrize(("scale", "rises"), [(0.5, False), (0.0, True), (2.0, False)])
def test_alpha_falls_while_entropy_exceeds_its_target(scale: float, rises: bool) -> None:
    """d/dlog α of −log α·(log π + H̄) is −(log π + H̄), H̄ = −scale·A; Adam's first step is lr against its sign."""
    learner = by_hand(target_entropy_scale=scale, alpha_lr=0.01)
    metrics = learner.update_temperature(torch.tensor([0.3]), KIND)  # entropy −0.3
    assert learner.alpha_gradient.flat[0, 0].item() == pytest.approx(-(0.3 - scale))
    log_alpha = math.log(0.5) - 0.01 * np.sign(scale - 0.3)
    assert learner.alpha(0).item() == pytest.approx(math.exp(log_alpha))
    assert (learner.alpha(0).item() > 0.5) == rises
    assert metrics["alpha"].item() == pytest.approx(0.5) and metrics["entropy"].item() == pytest.approx(-0.3)


def test_alpha_stays_unless_tuned_and_its_checkpoint_holds_it() -> None:
    fixed: Any = Sac(**SMALL, alpha=0.2, tune_alpha=False).spawn(build())
    tuned: Any = Sac(**SMALL, alpha=0.2).spawn(build())
    for learner in (fixed, tuned):
        learner.update(batch(0), np.ones(1, bool), 1)
    assert fixed.alpha(0).item() == pytest.approx(0.2)
    assert abs(math.log(tuned.alpha(0).item() / 0.2)) == pytest.approx(3e-4, rel=1e-3)
    assert tuned.state(0)["alpha"]["log_alpha"] == pytest.approx(math.log(tuned.alpha(0).item()))


def test_a_greedy_action_is_the_tanh_of_the_mean_and_its_value_the_mean_of_all_critics() -> None:
    """μ = x₁ = 0.5; Q_i = i·2 + tanh ½."""
    learner = by_hand()
    observation, rows = np.array([[2, 0.5]], np.float32), np.zeros(1, int)
    assert learner.act(observation, rows, None, 0) == pytest.approx(math.tanh(0.5))
    assert learner.value(observation, rows) == pytest.approx(4 + math.tanh(0.5))
    rng = [np.random.default_rng(0)]
    drawn = np.array([learner.act(observation, rows, rng, 100)[0, 0] for _ in range(3000)])
    assert np.arctanh(drawn).mean() == pytest.approx(0.5, abs=0.06)
    assert np.arctanh(drawn).std() == pytest.approx(1, abs=0.04)
