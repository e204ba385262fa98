"""The reward ensemble: equations by hand, the same as networks trained one by one, every seed for itself."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from guidebench.baselines.preference.reward_inputs import States
from guidebench.baselines.preference.rewards import Preferences, RewardEnsemble
from guidebench.harness.interfaces import Array
from tests.baselines.learners.conftest import same
from tests.baselines.learners.continuous import build

H, D = 3, 2


def ensemble(seeds: tuple[int, ...] = (0,), observed: int = D, **settings: Any) -> RewardEnsemble:
    given = {"members": 3, "rate": 1e-2, "batch_size": 8, "smoothing": 0.0, **settings}
    home, hidden = build(seeds, observed=observed), given.pop("hidden", (8, 8))
    return RewardEnsemble(home, States(home, hidden).network, **given)


def linear(weights: list[float], smoothing: float = 0.0) -> RewardEnsemble:
    """Members tanh(w·s) of one seed, s a number."""
    made = ensemble(observed=1, hidden=(), members=len(weights), smoothing=smoothing)
    arrays = made.parameters.arrays(0)
    made.parameters.load(0, {
        "reward.0.weight": np.array(weights, np.float32).reshape(arrays["reward.0.weight"].shape),
        "reward.0.bias": np.zeros_like(arrays["reward.0.bias"]),
    })  # fmt: skip
    return made


def preferences(seed: int, count: int, wrong: float = 0.0) -> Preferences:
    """Pairs of random segments of which the one with the larger sum of the first coordinate is preferred."""
    rng = np.random.default_rng(seed)
    made = Preferences(H, D)
    pairs = rng.standard_normal((count, 2, H, D)).astype(np.float32)
    second = pairs[:, 1, :, 0].sum(1) > pairs[:, 0, :, 0].sum(1)
    made.add([*pairs], [float(label) for label in second ^ (rng.random(count) < wrong)])
    return made


def train(made: RewardEnsemble, sets: list[Preferences], seeds: tuple[int, ...], epochs: int = 3, enough: float = 1):
    generators = [np.random.default_rng(100 + seed) for seed in seeds]
    return made.train(sets, np.ones(len(sets), bool), generators, epochs, enough)


def test_the_reward_of_a_state_is_the_mean_of_its_members_in_1() -> None:
    made = linear([1.0, -2.0])
    states = np.array([[[0.3], [1.5]]], np.float32)
    wanted = [(np.tanh(0.3) + np.tanh(-0.6)) / 2, (np.tanh(1.5) + np.tanh(-3.0)) / 2]
    assert made.reward(states)[0] == pytest.approx(wanted)
    assert made.reward_of(states[0], np.zeros(2, int)) == pytest.approx(wanted)
    assert made.returns(0, states[:, None, :, :].repeat(2, 1))[1] == pytest.approx(
        np.full((1, 2), np.tanh(-0.6) + np.tanh(-3.0))
    )


@pytest.mark.parametrize(
    ("label", "smoothing", "wanted"),
    # returns 0 and 1, so P[second] = e/(1 + e): −log P = 0.313262, −log(1 − P) = 1.313262
    [(1.0, 0.0, 0.313262), (0.0, 0.0, 1.313262), (0.5, 0.0, 0.813262), (1.0, 0.1, 0.413262), (0.5, 0.1, 0.813262)],
)
def test_loss_is_the_cross_entropy_of_bradley_terry_on_summed_rewards(
    label: float, smoothing: float, wanted: float
) -> None:
    made = linear([1.0], smoothing)
    half = np.arctanh(0.5)
    pairs = torch.tensor([[[[[[0.0], [0.0]], [[half], [half]]]]]], dtype=torch.float32)
    loss, told = made.terms(0, pairs, torch.full((1, 1, 1), label), torch.ones(1, 1, 1))
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    assert told.flatten().tolist() == pytest.approx([wanted, float(label > 0.5), float(label != 0.5)], rel=1e-5)


def test_what_pads_a_batch_weighs_nothing_and_members_add_up() -> None:
    made = linear([1.0, 0.5])
    pairs = torch.randn(1, 2, 4, 2, H, 1)
    labels, weights = torch.ones(1, 2, 4), torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 2, 4)
    loss, told = made.terms(0, pairs, labels, weights)
    alone = [
        F.softplus(
            torch.tanh(w * pairs[0, n, :2, 0]).sum((1, 2)) - torch.tanh(w * pairs[0, n, :2, 1]).sum((1, 2))
        ).mean()
        for n, w in enumerate((1.0, 0.5))
    ]
    assert loss.item() == pytest.approx(float(sum(alone)), rel=1e-5)
    assert told[2].tolist() == [[2, 2]]


def one_by_one(made: RewardEnsemble, data: Preferences, generator: np.random.Generator, epochs: int) -> list[Array]:
    """Each member of a single seed trained by itself with PyTorch's own layers and Adam; their weights at the end."""
    arrays = made.parameters.arrays(0)
    leaves = [
        {name: torch.tensor(value[n], requires_grad=True) for name, value in arrays.items()}
        for n in range(made.members)
    ]
    optimisers = [torch.optim.Adam(each.values(), lr=made.optimiser.rate) for each in leaves]
    for _ in range(epochs):
        orders = [generator.permutation(len(data)) for _ in leaves]
        for start in range(0, len(data), made.batch_size):
            for own, optimiser, order in zip(leaves, optimisers, orders, strict=True):
                index = order[start : start + made.batch_size]
                hidden = torch.tensor(data.pairs[index])
                for layer in range(3):
                    hidden = hidden @ own[f"reward.{layer}.weight"] + own[f"reward.{layer}.bias"]
                    hidden = F.leaky_relu(hidden) if layer < 2 else hidden.tanh()
                logits = hidden.sum((2, 3))
                optimiser.zero_grad()
                F.cross_entropy(logits, torch.tensor(data.labels[index]).long()).backward()
                optimiser.step()
    return [torch.cat([value.detach().flatten() for value in own.values()]).numpy() for own in leaves]


@pytest.mark.parametrize("size", [5, 8, 21])
def test_training_together_is_training_every_member_by_itself(size: int) -> None:
    made, data = ensemble(), preferences(0, size)
    wanted = one_by_one(made, data, np.random.default_rng(100), 3)
    fit = train(made, [data], (0,), epochs=3)
    arrays = made.parameters.arrays(0)
    for member, weights in enumerate(wanted):
        found = np.concatenate([value[member].ravel() for value in arrays.values()])
        assert found == pytest.approx(weights, abs=2e-5)
    assert fit.epochs.tolist() == [3] and 0 <= fit.accuracy[0] <= 1 and np.isfinite(fit.loss[0])


def test_a_seed_stops_after_an_epoch_that_is_accurate_enough_while_others_go_on() -> None:
    made = ensemble((0, 1))
    easy, hard = preferences(0, 40), preferences(1, 40, wrong=0.5)
    fit = train(made, [easy, hard], (0, 1), epochs=30, enough=0.9)
    assert fit.epochs[0] < fit.epochs[1] == 30
    assert fit.accuracy[0] > 0.9 >= fit.accuracy[1]
    assert made.optimiser.state(0)["steps"] == 5 * fit.epochs[0]


def test_without_pairs_or_when_not_chosen_a_seeds_networks_and_optimiser_stay_as_they_are() -> None:
    made = ensemble((0, 1, 2))
    before = [made.state(row) for row in range(3)]
    sets = [preferences(0, 9), preferences(1, 0), preferences(2, 9)]
    generators = [np.random.default_rng(row) for row in range(3)]
    fit = made.train(sets, np.array([True, True, False]), generators, 2, 1.0)
    assert [same(before[row], made.state(row)) for row in range(3)] == [False, True, True]
    assert np.isnan(fit.accuracy).tolist() == [False, True, True] and fit.epochs.tolist() == [2, 0, 0]


def test_pairs_labelled_one_half_are_learnt_from_and_say_nothing_of_accuracy() -> None:
    made, data = ensemble(), Preferences(H, D)
    data.add([*preferences(0, 6).pairs], [0.5] * 6)
    before = made.state(0)
    fit = train(made, [data], (0,), epochs=4, enough=0.0)
    assert np.isnan(fit.accuracy[0]) and fit.epochs[0] == 4 and not same(before, made.state(0))
