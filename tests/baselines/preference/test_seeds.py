"""Rewards of states and of frames: every seed learns for itself, whatever stands beside it."""

from types import ModuleType

import numpy as np
import pytest
import torch

from guidebench.baselines.parameters import Parameters
from tests.baselines.learners.conftest import same
from tests.baselines.preference import test_reward_inputs, test_rewards

SEEDS, SIZES = (0, 1, 2), (3, 9, 6)
BOTH = pytest.mark.parametrize("kind", [test_rewards, test_reward_inputs], ids=["states", "frames"])


@BOTH
def test_a_seed_is_bit_equal_alone_and_beside_others_that_have_more_or_fewer_labels(kind: ModuleType) -> None:
    together = kind.ensemble(SEEDS)
    sets = [kind.preferences(seed, size) for seed, size in zip(SEEDS, SIZES, strict=True)]
    both = kind.train(together, sets, SEEDS)
    seen = sets[1].pairs[0]
    for row, seed in enumerate(SEEDS):
        alone = kind.ensemble((seed,))
        one = kind.train(alone, [sets[row]], (seed,))
        assert same(together.state(row), alone.state(0)) and [each[row] for each in both] == [each[0] for each in one]
        assert np.array_equal(together.reward(np.stack([seen[0]] * 3))[row], alone.reward(seen[:1])[0])


@BOTH
def test_as_one_batched_product_seeds_learn_what_they_learn_by_themselves(kind: ModuleType) -> None:
    """As on a GPU, where all seeds are one part and those with fewer labels are padded."""
    sets = [kind.preferences(seed, size) for seed, size in zip(SEEDS, SIZES, strict=True)]
    apart, batched = kind.ensemble(SEEDS), kind.ensemble(SEEDS)
    whole = Parameters(batched.network.specs(), 3, members=batched.members, together=True)
    whole.flat.copy_(batched.parameters.flat)
    batched.parameters, batched.gradient = whole, whole.empty_like()
    batched.optimiser = type(batched.optimiser)(whole, batched.optimiser.rate)
    fits = [kind.train(made, sets, SEEDS) for made in (apart, batched)]
    assert fits[0].accuracy == pytest.approx(fits[1].accuracy) and fits[0].loss == pytest.approx(fits[1].loss, rel=1e-3)
    assert torch.allclose(apart.parameters.flat, batched.parameters.flat, atol=1e-4)
    assert batched.returns(2, sets[0].pairs) == pytest.approx(apart.returns(2, sets[0].pairs), abs=1e-4)
