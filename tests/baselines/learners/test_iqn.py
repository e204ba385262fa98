from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from guidebench.baselines.arithmetic import mlp
from guidebench.baselines.learners.iqn import Iqn
from guidebench.baselines.learners.iqn.learner import IqnLearner, quantile_huber
from guidebench.baselines.parameters import Parameters
from guidebench.harness.interfaces import Actions, Batch, Observations
from guidebench.harness.streams import Streams
from tests.baselines.learners.conftest import (
    GRID,
    MASKED,
    SMALL,
    VECTOR,
    batches,
    make,
    masked,
    same,
    terms,
    unread,
)

FRACTIONS = {3: torch.tensor([0, 0.5, 1]), 2: torch.tensor([0.0, 1.0])}
"""τ of the loss, of which there are three, and τ' of the target; 1 + cos πτ is (2, 1, 0) and (2, 0)."""


def by_hand(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> IqnLearner:
    """Features are the observation, φ(τ) = (1 + cos πτ, 1), so Z_τ(x) = ((1 + cos πτ)·x₀, 2x₁) online and
    Z̄_τ(x) = (10·(1 + cos πτ)·x₀, x₁ + 1). Over [0, 1] the mean of 1 + cos πτ is 1."""
    quantiles = {"train_quantiles": 3, "target_quantiles": 2, "policy_quantiles": 4, "cosines": 2}
    learner: IqnLearner = make(Iqn(hidden=(), discount=0.5, **quantiles, **settings))
    embedding = {"quantile.weight": np.array([[1, 1], [1, 0]]), "quantile.bias": np.zeros(2)}
    online = {"head.0.weight": np.array([[1, 0], [0, 2]]), "head.0.bias": np.zeros(2)}
    target = {"head.0.weight": np.array([[10, 0], [0, 1]]), "head.0.bias": np.array([0, 1])}
    learner.online.load(0, embedding | online)
    learner.target.load(0, embedding | target)
    monkeypatch.setattr(learner, "fractions", lambda rows, size, count: FRACTIONS[count].expand(1, size, -1))
    return learner


WORKED = Batch(
    observation=np.array([[[1, 1], [1, 1], [3, 0]]], np.float32),
    action=np.array([[0, 1, 0]]),
    reward=np.array([[1, 1, 1]], np.float32),
    next_observation=np.array([[[1, 2], [1, 2], [1, 2]]], np.float32),
    terminated=np.array([[False, False, True]]),
    weight=None,
)
"""Z(s, a) = (2, 1, 0), (2, 2, 2), (6, 3, 0). At s′ = (1, 2): Q = (1, 4); Z̄ = (20, 0) and (3, 3), so Q̄ = (10, 3). The
last transition terminates."""


def close(values: torch.Tensor, expected: list[float]) -> bool:
    return bool(np.allclose(values.detach(), [expected], atol=1e-5))


def test_the_embedding_is_a_rectified_sum_of_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    """τ = ⅓: cos 0, cos π/3, cos 2π/3 = 1, ½, −½, so relu(1·1 + ½·2 + ½·4 − ½, −½·4 + 1); τ = 1: 1, −1, 1."""
    network = Iqn(hidden=(), cosines=3).network(VECTOR, Actions(2))
    weight = torch.tensor([[[1.0, 0.0], [2.0, -4.0], [-4.0, 0.0]]])
    parameters = {"quantile.weight": weight, "quantile.bias": torch.tensor([[-0.5, 1.0]])}
    embedding = network.embedding(parameters, torch.tensor([[[1 / 3, 1.0]]]))
    torch.testing.assert_close(embedding, torch.tensor([[[[3.5, 0.0], [0.0, 5.0]]]]))


def test_quantiles_are_of_features_times_the_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    """x = (3, 5): ((2, 1, 0)·3, 10)."""
    learner = by_hand(monkeypatch)
    views = learner.online.blocks[0].views
    quantiles = learner.network.quantiles(views, torch.tensor([[[3.0, 5.0]]]), FRACTIONS[3].view(1, 1, 3))
    torch.testing.assert_close(quantiles, torch.tensor([[[[6.0, 10.0], [3.0, 10.0], [0.0, 10.0]]]]))


def test_q_values_are_means_over_the_middles_of_equal_parts() -> None:
    """Two parts: τ = ¼ and ¾, where relu(cos πτ) is √½ and 0."""
    network = Iqn(hidden=(), cosines=2, policy_quantiles=2).network(Observations((1,), "float32"), Actions(1))
    parameters = {
        "quantile.weight": torch.tensor([[[0.0], [1.0]]]),
        "quantile.bias": torch.zeros(1, 1),
        "head.0.weight": torch.ones(1, 1, 1),
        "head.0.bias": torch.zeros(1, 1),
    }
    assert network(parameters, torch.ones(1, 1, 1)).item() == pytest.approx(math.sqrt(0.5) / 2)


def test_a_quantile_does_not_depend_on_those_beside_it() -> None:
    network = Iqn(**SMALL).network(GRID, Actions(3))
    parameters = Parameters(network.specs(), 2, together=True)
    parameters.initialise([np.random.default_rng(seed) for seed in range(2)])
    views = parameters.blocks[0].views
    inputs = torch.cat([torch.from_numpy(batches(GRID, seed, 4, 3, 1)[0].observation) for seed in range(2)])
    fractions = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0))
    every = network.quantiles(views, inputs, fractions)
    for seed, transition, quantile in np.ndindex(2, 4, 5):
        alone = {name: view[seed : seed + 1] for name, view in views.items()}
        single = inputs[seed, transition].view(1, 1, *GRID.shape), fractions[seed, transition, quantile].view(1, 1, 1)
        torch.testing.assert_close(every[seed, transition, quantile], network.quantiles(alone, *single).view(3))
    shared = fractions[:, :1]
    torch.testing.assert_close(
        network.quantiles(views, inputs, shared), network.quantiles(views, inputs, shared.expand(-1, 4, -1))
    )


@pytest.mark.parametrize(
    ("kappa", "targets", "expected"),
    [
        # δ = 1, 4 and −1, 2; L = ½, 3½ and ½, 1½; τ or 1 − τ = ¼, ¼ and ¼, ¾: (⅛ + ⅞)/2 + (⅛ + 9/8)/2
        (1.0, [1.0, 4.0], 1.125),
        # L/κ = ¼, 3 and ¼, 1: (1/16 + ¾)/2 + (1/16 + ¾)/2
        (2.0, [1.0, 4.0], 0.8125),
        # a mean over what is wanted, a sum over quantiles: ⅛ + ⅛
        (1.0, [1.0], 0.25),
    ],
)
def test_quantile_huber_loss(kappa: float, targets: list[float], expected: float) -> None:
    quantiles, fractions = torch.tensor([[[0.0, 2.0]]]), torch.tensor([[[0.25, 0.75]]])
    assert quantile_huber(quantiles, torch.tensor([[targets]]), fractions, kappa).tolist() == [
        [pytest.approx(expected)]
    ]


def test_double_target_values_the_online_networks_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """y = 1 + ½·3 twice, then 1. Mean Z(s, a) − mean y = 1 − 2½, 2 − 2½, 3 − 1. δ = y − Z: ½, 1½, 2½; ½ thrice;
    −5, −2, 1; |τ − 1{δ<0}| = 0, ½, 1 but for the last 1, ½, 1."""
    loss_terms = terms(by_hand(monkeypatch), WORKED)
    assert close(loss_terms.value, [1, 2, 3]) and close(loss_terms.td_error, [-1.5, -0.5, 2])
    assert close(loss_terms.loss, [0.5 * 1 + 2, 0.5 * 0.125 + 0.125, 4.5 + 0.5 * 1.5 + 0.5])


def test_single_target_is_the_target_networks_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """y = 1 + ½·(20, 0) twice, then 1. δ of the first: (9, −1), (10, 0), (11, 1); of the second (9, −1) thrice."""
    loss_terms = terms(by_hand(monkeypatch, double=False), WORKED)
    assert close(loss_terms.td_error, [-5, -4, 2])
    first = (1 * 0.5) / 2 + 0.5 * 9.5 / 2 + (10.5 + 0.5) / 2
    second = (1 * 0.5) / 2 + 0.5 * (8.5 + 0.5) / 2 + 8.5 / 2
    assert close(loss_terms.loss, [first, second, 4.5 + 0.5 * 1.5 + 0.5])


@pytest.mark.parametrize("double", [True, False])
def test_targets_are_of_actions_that_may_be_taken_next(monkeypatch: pytest.MonkeyPatch, double: bool) -> None:
    """Only action 1 may be taken at s′, so y = 1 + ½·(3, 3) twice, also for `reducible`: |1 − 2½| − |10 − 2½|. As a
    loss, Z̄(s, a) = (20, 10, 0), (2, 2, 2), (60, 30, 0) has 17 + ½·7 + 2, 3/16 and 58½ + ½·28½ + ½."""
    learner: IqnLearner = make(
        Iqn(hidden=(), discount=0.5, train_quantiles=3, target_quantiles=2, cosines=2, double=double), MASKED
    )
    embedding = {"quantile.weight": np.array([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]), "quantile.bias": np.zeros(6)}
    online, target = unread(np.array([[1, 0], [0, 2]])), unread(np.array([[10, 0], [0, 1]]))
    learner.online.load(0, embedding | {"head.0.weight": online, "head.0.bias": np.zeros(2)})
    learner.target.load(0, embedding | {"head.0.weight": target, "head.0.bias": np.array([0, 1])})
    monkeypatch.setattr(learner, "fractions", lambda rows, size, count: FRACTIONS[count].expand(1, size, -1))
    following = masked(WORKED.next_observation, [0, 1])
    batch = WORKED._replace(observation=masked(WORKED.observation, 1), next_observation=following)
    loss_terms = terms(learner, batch)
    assert close(loss_terms.td_error, [-1.5, -0.5, 2]) and close(loss_terms.reducible, [-6, 0, -27])
    assert close(loss_terms.loss, [2.5, 0.1875, 5.75])
    assert close(terms(learner, batch, "loss").reducible, [2.5 - 22.5, 0, 5.75 - 73.25])


def test_an_end_by_time_bootstraps(monkeypatch: pytest.MonkeyPatch) -> None:
    truncated = WORKED._replace(terminated=np.zeros((1, 3), bool))
    assert close(terms(by_hand(monkeypatch), truncated).td_error, [-1.5, -0.5, 0.5])


@pytest.mark.parametrize("double", [True, False])
def test_reducible_is_by_how_much_the_online_error_exceeds_the_targets(
    monkeypatch: pytest.MonkeyPatch, double: bool
) -> None:
    """y = 1 + ½·10 twice, the greater mean of Z̄(s′, ·) = (20, 0), (3, 3), then 1. Mean Z̄(s, a) = 10, 2, 30:
    |1 − 6| − |10 − 6|, |2 − 6| − |2 − 6|, |3 − 1| − |30 − 1|."""
    update = by_hand(monkeypatch, double=double).update(WORKED, np.ones(1, bool), 1, reducible="error")
    assert update.reducible is not None and np.allclose(update.reducible, [[1, 0, -27]], atol=1e-5)
    assert by_hand(monkeypatch).update(WORKED, np.ones(1, bool), 1).reducible is None


@pytest.mark.parametrize("double", [True, False])
def test_reducible_may_be_a_difference_of_losses(monkeypatch: pytest.MonkeyPatch, double: bool) -> None:
    """y = (11, 1) twice, then (1, 1), whatever `double`. The losses of Z are ¼ + 2⅜ + 5½ = 8⅛, 6¾ and 5¾, as in the
    tests above; of Z̄(s, a) = (20, 10, 0), (2, 2, 2) and (60, 30, 0) they are 13½ + 2¼ + 5½ = 21¼, 6¾ and
    58½ + 14¼ + ½ = 73¼."""
    learner = by_hand(monkeypatch, double=double)
    reducible = learner.update(WORKED, np.ones(1, bool), 1, reducible="loss").reducible
    assert reducible is not None and np.allclose(reducible, [[-13.125, 0, -67.5]], atol=1e-5)


def test_only_the_online_quantiles_have_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """dL/dZ_i = −|τ_i − 1{δ<0}|·clip(δ, ±1)/3 with δ = ½, 1½, 2½; ½ thrice; −5, −2, 1. Z depends on the bias by 1."""
    learner = by_hand(monkeypatch, max_grad_norm=100.0)
    learner.update(WORKED, np.ones(1, bool), 1)
    bias = np.array([-(0.5 * 1 + 1) + 1 + 0.5 - 1, -(0.5 * 0.5 + 0.5)]) / 3
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.bias"], bias, atol=1e-5)


def test_fractions_are_the_seeds_own_draws_in_their_order() -> None:
    """τ is drawn first, then τ'; acting and values draw none."""
    streams, twins = [Streams(3), Streams(4)], [Streams(3), Streams(4)]
    learner = make(Iqn(**SMALL), GRID, 3, seeds=(3, 4), streams=streams)
    batch = Batch(*(np.concatenate([field] * 2) for field in batches(GRID, 0, 16, 3, 1)[0][:6]))
    learner.update(batch, np.ones(2, bool), 1)
    learner.act(batch.observation[:, 0], np.arange(2), [stream.explore for stream in streams], 900)
    learner.value(batch.observation[:, 0], np.arange(2))
    for ours, twin in zip(streams, twins, strict=True):
        twin.noise.random((16, 64), np.float32)
        twin.noise.random((16, 64), np.float32)
        assert same(ours.noise.bit_generator.state, twin.noise.bit_generator.state)
    drawn = learner.fractions(slice(1, 2), 5, 7)
    assert np.array_equal(drawn, twins[1].noise.random((1, 5, 7), np.float32))


@pytest.mark.parametrize("observations", [GRID, VECTOR])
def test_estimates_count_the_weights_once_per_quantile(observations: Observations) -> None:
    config = Iqn(channels=8, features=16, hidden=(7, 9), cosines=5, policy_quantiles=3)
    specs = config.network(observations, Actions(4)).specs()
    per_quantile = sum(
        math.prod(spec.shape)
        for name, spec in specs.items()
        if name.endswith("weight") and not name.startswith("encoder")
    )
    reading = config.reading(observations)
    encoder = reading.multiplications + (0 if observations is GRID else mlp((2, 7, 9)))
    assert config.multiplications_to_act(observations, Actions(4)) == encoder + 3 * per_quantile
    more = Iqn(channels=8, features=16, hidden=(7, 9), cosines=5, policy_quantiles=3, target_quantiles=65)
    extra = more.multiplications_to_learn(observations, Actions(4)) - config.multiplications_to_learn(
        observations, Actions(4)
    )
    assert extra == per_quantile
