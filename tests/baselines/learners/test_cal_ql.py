"""Cal-QL's critics, target and returns by numbers worked by hand; what it shares with SAC is tested there."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.learners.actor_critic.sample import Kind
from guidebench.baselines.learners.cal_ql import CalQl
from guidebench.baselines.learners.cal_ql.learner import RETURN
from guidebench.baselines.storage import Storage
from guidebench.harness.interfaces import Batch, Transition
from tests.baselines.learners.continuous import SMALL as OF_SAC
from tests.baselines.learners.continuous import batch, build
from tests.refusals import check_refused

SMALL: dict[str, Any] = {**OF_SAC, "ensemble": 2, "cql_actions": 3}
PEAK = -0.5 * math.log(2 * math.pi)
"""log N(0; 0, 1)."""
T, SLOPE = 0.761594, -0.867562
"""tanh 1, and log(1 − tanh² 1)."""
KIND = Kind(0, True, (False,), None, False, (True,))


def by_hand(**settings: Any) -> Any:
    """Linear networks of (x₀, x₁) and an action: Q_i = i·x₀ + a for i = 1, 2, Q̄ alike; μ = x₁, σ = 1; K = 2, γ = ½."""
    fields = {**SMALL, "hidden": (), "discount": 0.5, "cql_actions": 2, **settings}
    learner: Any = CalQl(**fields).spawn(build())
    learner.critic.load(
        0, {"critic.0.weight": np.array([[[i], [0], [1]] for i in (1, 2)]), "critic.0.bias": np.zeros((2, 1))}
    )
    learner.target.flat.copy_(learner.critic.flat)
    learner.actor.load(0, {"actor.0.weight": np.array([[0, 0], [1, 0]]), "actor.0.bias": np.zeros(2)})
    return learner


def worked(returns: float) -> Batch:
    """s = (1, 0), a = ½: Q_i = 1.5, 2.5. s′ = (1, 1), so that μ(s′) = 1."""
    return Batch(
        observation=np.array([[[1, 0]]], np.float32),
        action=np.array([[[0.5]]], np.float32),
        reward=np.array([[1]], np.float32),
        next_observation=np.array([[[1, 1]]], np.float32),
        terminated=np.array([[False]]),
        weight=None,
        columns={RETURN.name: np.array([[returns]], np.float32)},
    )


def sampled(learner: Any, transitions: Batch) -> Any:
    """Random actions −1 and 1; in s′ u = 1 and 0, so a = T and 0; in s u = 0 and 1, so a = 0 and T."""

    def noise(*values: float) -> torch.Tensor:
        return torch.tensor(values).view(1, 1, 2, 1)

    sample = learner.sample(transitions, slice(0, 1), True)
    drawn = {"random": noise(-1, 1), "next": noise(0, -1), "current": noise(0, 1), "backup": noise(0, -1)}
    more = {name: drawn.get(name, values) for name, values in sample.more.items()}
    return sample._replace(more=more, next_noise=torch.zeros(1, 1, 1))


def logits(i: int, least: float) -> list[float]:
    """Q_i(s, a_j) − log μ_j of the six actions: uniform ones have density ½, and the policy's values are at least
    `least`."""
    uniform = [i - 1 + math.log(2), i + 1 + math.log(2)]
    following = [max(i + T, least) - (PEAK - SLOPE), max(i, least) - (PEAK - 0.5)]
    current = [max(i, least) - PEAK, max(i + T, least) - (PEAK - 0.5 - SLOPE)]
    return uniform + following + current


def gap(i: int, least: float) -> float:
    """log Σ exp(Q_i(s, a_j) − log μ_j) − Q_i(s, a)."""
    return math.log(sum(math.exp(logit) for logit in logits(i, least))) - (i + 0.5)


@pytest.mark.parametrize(("returns", "share"), [(1.5, 2 / 8), (2.2, 5 / 8), (-math.inf, 0.0)])
def test_the_conservative_term_weighs_actions_by_their_density_and_is_bounded_by_the_return(
    returns: float, share: float
) -> None:
    """Values of the policy's actions are 1.76, 1, 1, 1.76 and 2.76, 2, 2, 2.76; those of random ones, 0, 2 and 1, 3,
    are not bounded. Below 1.5 are two, below 2.2 the first four and two of the others."""
    share = 6 / 8 if returns == 2.2 else share
    learner = by_hand(critic_lr=0, cql_weight=5.0)
    metrics = learner.update_critics(sampled(learner, worked(returns)), KIND).metrics
    gaps = [gap(i, returns) for i in (1, 2)]
    assert metrics["cql"].tolist() == pytest.approx([sum(gaps) / 2], abs=1e-5)
    assert metrics["bounded"].tolist() == pytest.approx([share])
    y = 1 + 0.5 * (1 + T)  # of s′ with a′ = T, by the smaller critic
    assert metrics["loss"].tolist() == pytest.approx([(1.5 - y) ** 2 + (2.5 - y) ** 2 + 5 * sum(gaps)], abs=1e-4)


def test_a_bounded_value_has_no_gradient() -> None:
    """By the bias of critic i: the sum of the softmax over what is not bounded, less 1. The error of the target is 0
    with a reward that makes y = Q_i for neither, so only the term is compared: at weight 1 less weight 0."""
    gradients = []
    for weight in (1.0, 0.0):
        learner = by_hand(critic_lr=0, cql_weight=weight)
        learner.update_critics(sampled(learner, worked(1.5)), KIND)
        gradients.append(learner.gradients[1].arrays(0)["critic.0.bias"][:, 0])
    expected = []
    for i, free in ((1, (0, 1, 2, 5)), (2, range(6))):
        weights = np.exp(logits(i, 1.5))
        expected.append(sum(weights[j] for j in free) / weights.sum() - 1)
    assert (gradients[0] - gradients[1]).tolist() == pytest.approx(expected, abs=1e-5)


def test_without_calibration_it_is_cql_and_still_counts_what_would_be_bounded() -> None:
    learner = by_hand(critic_lr=0, calibrated=False)
    metrics = learner.update_critics(sampled(learner, worked(1.5)), KIND).metrics
    assert metrics["cql"].tolist() == pytest.approx([(gap(1, -math.inf) + gap(2, -math.inf)) / 2], abs=1e-5)
    assert metrics["bounded"].tolist() == [0.25]


def test_the_backup_takes_the_minimum_over_critics_before_the_maximum_over_actions_and_pays_no_entropy() -> None:
    """Q̄_1 = a, Q̄_2 = ½ − a: at a′ = T the minimum is ½ − T, at 0 it is 0; the largest is 0. In the other order it would
    be ½. Rewards are 10·1 − 5."""
    learner = by_hand(critic_lr=0, cql_weight=0.0, reward_scale=10.0, reward_bias=-5.0)
    weight = np.array([[[0], [0], [1]], [[0], [0], [-1]]])
    learner.target.load(0, {"critic.0.weight": weight, "critic.0.bias": np.array([[0], [0.5]])})
    update = learner.update_critics(sampled(learner, worked(0.0)), KIND)
    assert update.td_error.tolist() == [[pytest.approx(2 - 5)]] and "cql" not in update.metrics


def test_the_backup_may_be_of_one_action_and_stops_at_the_end() -> None:
    """a′ = tanh 1 and the smaller critic: 1 + T; a terminated transition has y = r."""
    learner = by_hand(critic_lr=0, max_backup=False)
    transitions = worked(0.0)
    update = learner.update_critics(sampled(learner, transitions), KIND)
    assert update.td_error.tolist() == [[pytest.approx(2 - (1 + 0.5 * (1 + T)), abs=1e-6)]]
    update = learner.update_critics(sampled(learner, transitions._replace(terminated=np.array([[True]]))), KIND)
    assert update.td_error.tolist() == [[pytest.approx(2 - 1)]]


def test_the_actors_loss_clones_the_datasets_transitions_alone() -> None:
    """s₀ = (1, 1), a₀ = ½, of the dataset; s₁ = (1, 0), a₁ = −½, of the run. With noise 0 the actions are T and 0, so
    min Q is 1 + T and 1 and q̄ = 1 + T/2; with α = 1 the loss without the term is the mean of log π − Q, log π being
    log N(0; 0, 1) − log(1 − tanh²). The term is 2·q̄·(T − ½)², and its gradient by the bias of μ is 2·q̄·2(T − ½)(1 −
    T²), since q̄ has none."""
    batch_of_both = worked(0.0)._replace(
        observation=np.array([[[1, 1], [1, 0]]], np.float32),
        action=np.array([[[0.5], [-0.5]]], np.float32),
        reward=np.zeros((1, 2), np.float32),
        next_observation=np.zeros((1, 2, 2), np.float32),
        terminated=np.zeros((1, 2), bool),
        columns={RETURN.name: np.zeros((1, 2), np.float32)},
        from_dataset=np.array([[True, False]]),
    )
    losses, gradients = [], []
    for weight in (0.0, 2.0):
        learner = by_hand(actor_lr=0, bc_weight=weight)
        sample = learner.sample(batch_of_both, slice(0, 1), True)._replace(noise=torch.zeros(1, 2, 1))
        losses.append(learner.update_actor(sample, KIND)[0]["actor_loss"].item())
        gradients.append(float(learner.gradients[0].arrays(0)["actor.0.bias"][0]))
    mean_value = 1 + T / 2
    assert losses[0] == pytest.approx(PEAK - SLOPE / 2 - mean_value, abs=1e-5)
    assert losses[1] - losses[0] == pytest.approx(2 * mean_value * (T - 0.5) ** 2, abs=1e-5)
    expected = 2 * mean_value * 2 * (T - 0.5) * (1 - T**2)
    assert gradients[1] - gradients[0] == pytest.approx(expected, abs=1e-5)


def test_an_agent_that_mixes_both_in_one_store_cannot_clone() -> None:
    learner: Any = CalQl(**SMALL, bc_weight=4.0).spawn(build())
    check_refused("learner.bc_weight clones the transitions", learner.sample, with_returns(batch(0)), slice(0, 1), True)


def test_random_actions_fill_the_interval_and_the_draws_of_a_state_differ() -> None:
    learner: Any = CalQl(**{**SMALL, "batch_size": 16, "cql_actions": 100}).spawn(build())
    more = learner.sample(with_returns(batch(0)), slice(0, 1), True).more
    assert more["random"].shape == (1, 16, 100, 1) and -1 <= more["random"].min() < -0.99 < 0.99 < more["random"].max()
    assert more["random"].mean().abs() < 5 / math.sqrt(3 * 1600)
    for name in ("next", "current", "backup"):
        assert more[name].mean().abs() < 0.12 and more[name].std().item() == pytest.approx(1, abs=0.1)
    assert not torch.equal(more["next"], more["current"]) and not torch.equal(more["next"], more["backup"])


def stored(tmp_path: Path, terminated: bool, **settings: Any) -> tuple[Any, Storage]:
    """A learner of γ = ½ and a store with one episode of rewards 0, 0, 1 and the beginning of another."""
    run_build = build(path=tmp_path)
    learner: Any = CalQl(**{**SMALL, "discount": 0.5, **settings}).spawn(run_build)
    store = Storage(run_build, learner.columns)
    observation, no = np.zeros((1, 2), np.float32), np.zeros(1, bool)
    for step in range(4):
        last = no | (step == 2)
        reward = np.array([step == 2], np.float32)
        store.append(
            Transition(
                observation,
                observation[:, :1],
                reward,
                last & terminated,
                last & (not terminated),
                observation,
                observation[:, :0],
                None,
                no,
            )
        )
    learner.ended(0, np.arange(3), store)
    return learner, store


def column(store: Storage) -> list[float]:
    return store.column(RETURN.name, np.arange(4)[None])[0].tolist()


@pytest.mark.parametrize(
    ("terminated", "settings", "returns"),
    [
        (True, {}, [0.25, 0.5, 1]),
        (False, {}, [0.25, 0.5, 1]),
        (True, {"tail": "last_reward"}, [0.25, 0.5, 1]),
        (False, {"tail": "last_reward"}, [0.5, 1, 2]),  # 1 + ½·1/(1 − ½)
        (True, {"reward_scale": 10.0, "reward_bias": -5.0}, [-6.25, -2.5, 5]),  # of −5, −5, 5
    ],
)
def test_returns_are_those_of_the_rewards_it_learns_from(
    terminated: bool, settings: dict[str, Any], returns: list[float], tmp_path: Path
) -> None:
    assert column(stored(tmp_path, terminated, **settings)[1]) == [*returns, -math.inf]


def test_returns_are_recomputed_when_rewards_are_relabelled_and_a_checkpoint_holds_them(tmp_path: Path) -> None:
    learner, store = stored(tmp_path, True)
    state = store.state(0)
    learner.write_returns(0, np.arange(3), np.array([1, 1, 1], np.float32), store)
    assert column(store) == [1.75, 1.5, 1, -math.inf]
    again = Storage(build(path=tmp_path), learner.columns)
    again.load_state(0, state)
    assert column(again) == [0.25, 0.5, 1, -math.inf], "those of the checkpoint, although the ring is newer"


def with_returns(transitions: Batch) -> Batch:
    returns = (
        np.random.default_rng(len(transitions.reward)).standard_normal(transitions.reward.shape).astype(np.float32)
    )
    return transitions._replace(columns={RETURN.name: returns})


def test_settings_that_cannot_be_are_refused() -> None:
    check_refused(r"learner.tail=last_reward sums the last reward for ever", CalQl, tail="last_reward", discount=1.0)
    check_refused(r"learner.cql_actions=0: expected", CalQl, cql_actions=0)
