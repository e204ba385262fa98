from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from baselines.arithmetic import for_observations
from baselines.learners.dqn import Dqn
from baselines.learners.dqn.learner import DqnLearner, Loss
from baselines.parameters import Parameters
from harness.errors import UserError
from harness.interfaces import Actions, Batch, Build, Observations
from harness.streams import Streams

GRID = Observations((5, 5, 3), "uint8", (11, 6, 4))
VECTOR = Observations((2,), "float32")
SMALL: dict[str, Any] = {"batch_size": 16, "channels": 16, "features": 32, "hidden": (32,)}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in a worker: more threads change the last bits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(
    config: Dqn,
    observations: Observations = VECTOR,
    actions: int = 2,
    seeds: tuple[int, ...] = (0,),
    device: str = "cpu",
) -> DqnLearner:
    learner = config.spawn(
        Build(
            seeds=seeds,
            observations=observations,
            actions=Actions(actions),
            steps=1000,
            horizon=100,
            events=(),
            device=device,
            streams=[Streams(seed) for seed in seeds],
            directories=tuple(Path() for _ in seeds),
            capacity=0,
            slots=0,
        )
    )
    assert isinstance(learner, DqnLearner)
    return learner


def batches(observations: Observations, seed: int, size: int, actions: int, count: int) -> list[Batch]:
    """Batches [1, size, …] of one seed, the same whichever seeds stand beside it."""
    rng = np.random.default_rng(seed)

    def seen() -> np.ndarray:
        if observations.categories:
            return rng.integers(0, observations.categories, (1, size, *observations.shape)).astype(np.uint8)
        return rng.standard_normal((1, size, *observations.shape)).astype(np.float32)

    return [
        Batch(
            observation=seen(),
            action=rng.integers(actions, size=(1, size)),
            reward=rng.standard_normal((1, size)).astype(np.float32),
            next_observation=seen(),
            terminated=rng.random((1, size)) < 0.2,
            weight=rng.random((1, size)).astype(np.float32),
        )
        for _ in range(count)
    ]


def beside(*single: Batch) -> Batch:
    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(batch, name) for batch in single])

    return Batch(
        observation=joined("observation"),
        action=joined("action"),
        reward=joined("reward"),
        next_observation=joined("next_observation"),
        terminated=joined("terminated"),
        weight=joined("weight"),
    )


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Two states equal to the last bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))


def td_loss(learner: DqnLearner, batch: Batch) -> Loss:
    """The loss of a learner's only seed."""
    return learner.td_loss(learner.online.parts[0].views, learner.target.parts[0].views, batch)


def by_hand(**settings: Any) -> DqnLearner:
    """Linear Q-networks: online Q(x) = (x₀, 2x₁), target Q̄(x) = (10x₀, x₁ + 1)."""
    learner = make(Dqn(hidden=(), discount=0.5, **settings))
    learner.online.load(0, {"head.0.weight": np.array([[1, 0], [0, 2]]), "head.0.bias": np.zeros(2)})
    learner.target.load(0, {"head.0.weight": np.array([[10, 0], [0, 1]]), "head.0.bias": np.array([0, 1])})
    return learner


WORKED = Batch(
    observation=np.array([[[1, 1], [1, 1], [3, 0]]], np.float32),
    action=np.array([[0, 1, 0]]),
    reward=np.array([[1, 1, 1]], np.float32),
    next_observation=np.array([[[1, 2], [1, 2], [1, 2]]], np.float32),
    terminated=np.array([[False, False, True]]),
    weight=None,
)
"""Q(s, a) = 1, 2, 3. At s′ = (1, 2): Q = (1, 4) and Q̄ = (10, 3). The last transition terminates."""


def test_double_target_values_the_online_networks_choice() -> None:
    """y = 1 + ½·3 twice, then 1; δ = −1.5, −0.5, 2; Huber 1, 0.125, 1.5."""
    result = td_loss(by_hand(), WORKED)
    assert result.td_error.tolist() == [[-1.5, -0.5, 2.0]]
    assert result.loss.tolist() == pytest.approx([(1 + 0.125 + 1.5) / 3])
    assert result.q_mean.tolist() == [2.0]


def test_single_target_is_the_target_networks_maximum() -> None:
    """y = 1 + ½·10 twice, then 1; δ = −5, −4, 2; Huber 4.5, 3.5, 1.5."""
    result = td_loss(by_hand(double=False), WORKED)
    assert result.td_error.tolist() == [[-5.0, -4.0, 2.0]]
    assert result.loss.tolist() == pytest.approx([(4.5 + 3.5 + 1.5) / 3])


def test_an_end_by_time_bootstraps() -> None:
    """A truncated transition comes with terminated = False: its δ is 3 − 2.5, not 3 − 1."""
    truncated = WORKED._replace(terminated=np.zeros((1, 3), bool))
    assert td_loss(by_hand(), truncated).td_error.tolist() == [[-1.5, -0.5, 0.5]]


def test_weights_scale_losses_but_not_td_errors() -> None:
    result = td_loss(by_hand(), WORKED._replace(weight=np.array([[1, 0.5, 0]], np.float32)))
    assert result.loss.tolist() == pytest.approx([(1 + 0.0625) / 3])
    assert result.td_error.tolist() == [[-1.5, -0.5, 2.0]]


def test_update_descends_the_gradient_and_tells_what_it_saw() -> None:
    """dL/dQ(s, a) = clip(δ, ±1)/3, so dL/dW[:, 0] = (−1·(1, 1) + 1·(3, 0))/3 and dL/dW[:, 1] = −½·(1, 1)/3."""
    learner = by_hand(max_grad_norm=100.0)
    update = learner.update(WORKED, np.ones(1, bool), step=1)
    weight = np.array([[2, -0.5], [-1, -0.5]]) / 3
    bias = np.array([0, -0.5]) / 3
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.weight"], weight, atol=1e-6)
    np.testing.assert_allclose(learner.gradient.arrays(0)["head.0.bias"], bias, atol=1e-6)
    assert update.metrics["grad_norm"] == pytest.approx(np.sqrt((weight**2).sum() + (bias**2).sum()))
    assert update.metrics["loss"] == pytest.approx(2.625 / 3) and update.metrics["q_mean"] == pytest.approx(2)
    assert update.td_error.dtype == np.float32 and update.td_error.tolist() == [[-1.5, -0.5, 2.0]]
    # Adam's first step is lr·sign(gradient)
    moved = learner.parameters(0)["head.0.weight"] - np.array([[1, 0], [0, 2]])
    np.testing.assert_allclose(moved, -4e-5 * np.sign(weight), rtol=1e-2)


PACKINGS = {
    "grid": (GRID, Dqn(batch_size=32, channels=32, lr=1e-3)),
    "cartpole": (Observations((4,), "float32"), Dqn(batch_size=64, hidden=(256, 256), lr=1e-3)),
    "odd": (Observations((5,), "float32"), Dqn(batch_size=33, hidden=(31, 7), lr=1e-3)),
}


@pytest.mark.parametrize("case", PACKINGS)
def test_a_seed_learns_the_same_bits_alone_and_beside_others(case: str) -> None:
    observations, config = PACKINGS[case]
    data = [batches(observations, seed, config.batch_size, 3, 50) for seed in range(3)]
    together = make(config, observations, 3, seeds=(0, 1, 2))
    alone = [make(config, observations, 3, seeds=(seed,)) for seed in range(3)]
    for step, parts in enumerate(zip(*data, strict=True)):
        packed = together.update(beside(*parts), np.ones(3, bool), step * 100)
        for row in range(3):
            single = alone[row].update(parts[row], np.ones(1, bool), step * 100)
            assert np.array_equal(packed.td_error[row], single.td_error[0])
            assert all(packed.metrics[name][row] == single.metrics[name][0] for name in packed.metrics)
    assert all(same(together.state(row), alone[row].state(0)) for row in range(3))


def test_one_seeds_nan_stays_with_it() -> None:
    config = Dqn(**SMALL)
    clean, spoilt = (make(config, GRID, 3, seeds=(0, 1, 2)) for _ in range(2))
    for step in range(3):
        batch = beside(*(batches(GRID, 10 * step + seed, 16, 3, 1)[0] for seed in range(3)))
        clean.update(batch, np.ones(3, bool), step)
        reward = batch.reward.copy()
        reward[1, 3] = np.nan
        update = spoilt.update(batch._replace(reward=reward), np.ones(3, bool), step)
        assert np.isnan(update.metrics["loss"]).tolist() == [False, True, False]
    assert same(clean.state(0), spoilt.state(0)) and same(clean.state(2), spoilt.state(2))
    assert np.isnan(spoilt.parameters(1)["head.0.bias"]).all()


def test_an_inactive_seed_keeps_everything() -> None:
    learner = make(Dqn(target_every=1, **SMALL), GRID, 3, seeds=(0, 1))
    batch = beside(*(batches(GRID, seed, 16, 3, 1)[0] for seed in range(2)))
    learner.update(batch, np.ones(2, bool), 1)
    before = learner.state(0), learner.state(1)
    learner.update(batch, np.array([True, False]), 2)
    assert same(before[1], learner.state(1)) and not same(before[0], learner.state(0))


def test_target_is_renewed_when_a_multiple_has_passed() -> None:
    """target_every = 10: at the first update from step 10 on, then from 20 on, and never twice for one multiple."""
    learner = make(Dqn(hidden=(), batch_size=8, target_every=10))
    batch = batches(VECTOR, 0, 8, 2, 1)[0]
    renewed = []
    for step in (4, 8, 12, 12, 16, 20, 24, 45, 48):
        online, target = learner.online.flat.clone(), learner.target.flat.clone()
        learner.update(batch, np.ones(1, bool), step)
        if not torch.equal(learner.target.flat, target):
            assert torch.equal(learner.target.flat, online)  # as it was before this gradient step
            renewed.append(step)
    assert renewed == [12, 20, 45]


def test_target_rate_mixes_online_into_target() -> None:
    learner = by_hand(target_rate=0.25, target_every=1)
    learner.update(WORKED, np.ones(1, bool), 1)
    weight = learner.state(0)["target"]["head.0.weight"]
    np.testing.assert_allclose(weight, 0.25 * np.array([[1, 0], [0, 2]]) + 0.75 * np.array([[10, 0], [0, 1]]))


def test_epsilon_falls_linearly_over_its_share_of_the_run() -> None:
    learner = make(Dqn(exploration_share=0.5))
    assert [learner.epsilon(step) for step in (0, 250, 500, 1000)] == pytest.approx([1.0, 0.525, 0.05, 0.05])
    assert make(Dqn(exploration_share=0.0)).epsilon(1) == pytest.approx(0.05)


def test_share_of_greedy_actions_follows_epsilon() -> None:
    """At ε = 0.525 one of two actions is greedy with probability 1 − 0.525/2."""
    learner = by_hand()
    rng = np.random.default_rng(0)
    taken = [learner.act(np.array([[0, 1]], np.float32), np.array([0]), [rng], 250)[0] for _ in range(2000)]
    assert np.mean(taken) == pytest.approx(1 - 0.525 / 2, abs=4 * np.sqrt(0.25 / 2000))


def test_exploring_seeds_draw_as_many_numbers_whatever_happens() -> None:
    """Seed 2 draws the same alone and packed; its stream stands the same after greedy and random actions."""
    config = Dqn(**SMALL)
    packed, alone = make(config, GRID, 5, seeds=(0, 1, 2)), make(config, GRID, 5, seeds=(2,))
    observation = beside(*(batches(GRID, seed, 1, 5, 1)[0] for seed in range(3))).observation[:, 0]
    many, one, other = [Streams(seed).explore for seed in range(3)], Streams(2).explore, Streams(2).explore
    for _ in range(20):
        actions = packed.act(observation, np.arange(3), many, 400)
        assert actions[2] == alone.act(observation[2:], np.array([0]), [one], 400)[0]
        alone.act(observation[2:], np.array([0]), [other], 0)
    assert many[2].bit_generator.state == one.bit_generator.state == other.bit_generator.state


def test_no_network_is_evaluated_when_every_seed_explores(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make(Dqn(), GRID, 5)
    monkeypatch.setattr(learner, "network", None)
    observation, rows, rng = np.zeros((1, 5, 5, 3), np.uint8), np.array([0]), np.random.default_rng(0)
    assert {int(learner.act(observation, rows, [rng], 0)[0]) for _ in range(99)} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
def test_greedy_actions_of_a_seed_are_its_own_networks(together: bool) -> None:
    """Seeds that disagree, observations out of order, none of seed 3; all seeds at once is what a GPU does."""
    learner = make(Dqn(hidden=()), seeds=(0, 1, 2, 3))
    learner.online = Parameters(learner.network.specs(), 4, together=together)
    for row, sign in enumerate((1, -1, 1, 1)):
        learner.load_parameters(row, {"head.0.weight": sign * np.eye(2), "head.0.bias": np.zeros(2)})
    observation = np.array([[2, 1], [2, 1], [1, 2], [2, 1], [1, 2]], np.float32)
    assert learner.act(observation, np.array([2, 1, 0, 0, 1]), None, 0).tolist() == [0, 1, 1, 0, 0]


def test_the_loss_of_all_seeds_at_once_is_each_ones_own() -> None:
    learner = make(Dqn(**SMALL), GRID, 3, seeds=(0, 1, 2))
    singles = [batches(GRID, seed, 16, 3, 1)[0] for seed in range(3)]
    together = Parameters(learner.network.specs(), 3, together=True)
    together.flat.copy_(learner.online.flat)
    packed = learner.td_loss(together.parts[0].views, together.parts[0].views, beside(*singles))
    for row, (single, part) in enumerate(zip(singles, learner.online.parts, strict=True)):
        alone = learner.td_loss(part.views, part.views, single)
        for all_seeds, own in zip(packed, alone, strict=True):
            torch.testing.assert_close(all_seeds[row], own[0], atol=1e-5, rtol=1e-5)


def test_updates_are_due_every_fourth_step_once_learning_starts() -> None:
    learner = make(Dqn(batch_size=2, learning_starts=10, train_every=4, gradient_steps=3))
    assert [step for step in range(21) if learner.updates_due(step)] == [12, 16, 20]
    assert learner.updates_due(12) == 3


def test_a_seed_restored_into_another_packing_continues_bit_for_bit() -> None:
    config = Dqn(target_every=7, lr=1e-3, **SMALL)
    data = batches(GRID, 1, 16, 3, 20)
    other = batches(GRID, 2, 16, 3, 20)
    whole = make(config, GRID, 3, seeds=(0, 1))
    resumed = make(config, GRID, 3, seeds=(5,))
    for step in range(10):
        whole.update(beside(other[step], data[step]), np.ones(2, bool), step)
    resumed.load_state(0, whole.state(1))
    for step in range(10, 20):
        whole.update(beside(other[step], data[step]), np.ones(2, bool), step)
        resumed.update(data[step], np.ones(1, bool), step)
    assert same(whole.state(1), resumed.state(0))


def test_a_state_does_not_change_with_later_updates() -> None:
    learner = make(Dqn(hidden=(), batch_size=8))
    state = learner.state(0)
    before = {name: array.copy() for name, array in state["parameters"].items()}
    learner.update(batches(VECTOR, 0, 8, 2, 1)[0], np.ones(1, bool), 1)
    assert same(before, state["parameters"]) and not same(before, dict(learner.parameters(0)))


def test_q_values_of_a_chain_are_found() -> None:
    """Two states: in A, 0 stays and 1 goes to B; in B, 0 goes to A and 1 ends with reward 1. With γ = ½:
    Q(B, 1) = 1, Q(A, 1) = ½, Q(A, 0) = Q(B, 0) = ¼."""
    a, b = [1.0, 0.0], [0.0, 1.0]
    chain = Batch(
        observation=np.array([[a, a, b, b]], np.float32),
        action=np.array([[0, 1, 0, 1]]),
        reward=np.array([[0, 0, 0, 1]], np.float32),
        next_observation=np.array([[a, b, a, a]], np.float32),
        terminated=np.array([[False, False, False, True]]),
        weight=None,
    )
    learner = make(Dqn(batch_size=4, hidden=(32,), lr=3e-3, discount=0.5, target_every=10))
    for step in range(1, 801):
        learner.update(chain, np.ones(1, bool), step)
    with torch.no_grad():
        values = learner.network(learner.online.parts[0].views, torch.eye(2)[None])[0]
    np.testing.assert_allclose(values, [[0.25, 0.5], [0.25, 1.0]], atol=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 600}, r"learner\.batch_size=600.*learning_starts=500.*at least 600"),
        ({"epsilon_start": 0.1, "epsilon_end": 0.2}, r"epsilon_end=0\.2.*epsilon_start=0\.1"),
        ({"channels": 0}, r"learner\.channels=0: expected int at least 1"),
        ({"hidden": (64, 0)}, r"learner\.hidden=\[64,0\]"),
        ({"discount": 1.5}, r"learner\.discount=1\.5: expected float in \[0, 1\]"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Dqn(**settings)


@pytest.mark.parametrize(
    ("observations", "actions", "reason"),
    [
        (GRID, Actions(5), ""),
        (VECTOR, Actions(2), ""),
        (VECTOR, Actions(shape=(3,)), "discrete"),
        (Observations((64, 64, 3), "uint8"), Actions(5), "uint8 of shape"),
        (Observations((7,), "uint8", (3,)), Actions(5), "grid"),
    ],
)
def test_spaces_that_do_not_fit_are_named(observations: Observations, actions: Actions, reason: str) -> None:
    told = Dqn().fits(observations, actions)
    assert reason in told if reason else told == ""


def test_estimated_cost_counts_updates_and_acting() -> None:
    """Doubling the batch doubles an update's arithmetic; updating half as often halves its share of a step."""

    def cost(**settings: Any) -> float:
        return Dqn(**settings).seconds_per_step(GRID, Actions(5))

    rare = cost(train_every=10**9)
    assert cost(train_every=8) - rare == pytest.approx((cost(train_every=4) - rare) / 2, rel=1e-3)
    single, double = (cost(batch_size=size, train_every=1) for size in (128, 256))
    arithmetic = 5 * 128 * for_observations(GRID, 64, 256, (256,), 5)
    assert double - single == pytest.approx(arithmetic / 3.5e10)
    assert 0 < Dqn().seconds_per_action(GRID, Actions(5)) < rare


def test_defaults_are_table_3() -> None:
    config = Dqn()
    assert (config.lr, config.batch_size, config.discount, config.max_grad_norm) == (4e-5, 128, 0.95, 1.0)
    assert (config.target_every, config.target_rate, config.learning_starts, config.train_every) == (1000, 1.0, 500, 4)
    assert (config.epsilon_start, config.epsilon_end, config.exploration_share, config.double) == (1.0, 0.05, 0.5, True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("observations", [GRID, VECTOR], ids=["grid", "vector"])
def test_an_update_on_a_gpu_agrees(observations: Observations) -> None:
    config = Dqn(**SMALL)
    learners = [make(config, observations, 3, seeds=(0, 1), device=device) for device in ("cpu", "cuda")]
    batch = beside(*(batches(observations, seed, 16, 3, 1)[0] for seed in range(2)))
    cpu, gpu = (learner.update(batch, np.ones(2, bool), 1) for learner in learners)
    np.testing.assert_allclose(gpu.td_error, cpu.td_error, atol=1e-4)
    np.testing.assert_allclose(gpu.metrics["grad_norm"], cpu.metrics["grad_norm"], rtol=1e-3)
