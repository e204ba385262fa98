"""Potentials, their differences and the mixture, with values worked by hand, and what always holds of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guidebench.methods.lagea import rewards

cosines = st.floats(-1, 1, width=32)


def one(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def test_the_goal_potential_averages_instruction_and_image() -> None:
    # ½(.6 + 1) − ½ = .3 and ½(−.2 + 1) − ½ = −.1; with τ = .5 the tanh are of .6 and −.2.
    found = rewards.goal_potential(one(0.6), one(-0.2), 0.5)
    assert found.item() == pytest.approx((math.tanh(0.6) + math.tanh(-0.2)) / 2)


def test_the_reward_is_the_tanh_of_the_discounted_difference() -> None:
    term = rewards.difference(one(0.5), one(0.2), 0.9)
    assert term.item() == pytest.approx(0.25)  # .9 · .5 − .2
    assert rewards.slope(term, 0.5).item() == pytest.approx(math.tanh(0.5))


def test_alpha_grows_with_agreement() -> None:
    assert rewards.agreement(one(0.2)).item() == pytest.approx(0.6)
    assert rewards.agreement(one(-1.0)).item() == 0
    # The released code: max(0, .2) = .2, a = .6, ½ + ½ · .6 = .8; a negative cosine counts as 0: ½ + ½ · ½ = .75.
    assert rewards.released_agreement(one(0.2)).item() == pytest.approx(0.8)
    assert rewards.released_agreement(one(-0.9)).item() == pytest.approx(0.75)


def test_the_mixture_is_limited_to_the_stated_range() -> None:
    assert rewards.mixture(one(0.5), one(-0.3), one(0.25)).item() == pytest.approx(0.75 * 0.5 - 0.25 * 0.3)
    assert rewards.mixture(one(1.0), one(8.0), one(0.9)).item() == 1  # ŵ may exceed 1, so r^fb may


def test_progress_is_the_larger_of_success_and_of_the_squared_share_of_rises() -> None:
    goal = torch.tensor([[0.2, -0.1, 0.3, 0.1, 9.0], [0.2, -0.1, 0.3, 0.1, 9.0]])
    there = torch.tensor([[True, True, True, True, False]] * 2)
    found = rewards.progress(torch.tensor([0.1, 0.8]), goal, there)  # (3 / 4)² = .5625
    assert found.tolist() == pytest.approx([0.5625, 0.8])
    assert rewards.strength(found, 0.01, 0.1).tolist() == pytest.approx([0.01 + 0.09 * 0.4375, 0.01 + 0.09 * 0.2])
    nothing = rewards.progress(torch.zeros(2), goal, torch.zeros(2, 5, dtype=torch.bool))
    assert nothing.tolist() == [0, 0]


@given(st.lists(cosines, min_size=3, max_size=30), st.floats(0.5, 1))
def test_raw_differences_telescope_and_their_tanh_does_not(values: list[float], discount: float) -> None:
    phi = torch.tensor(values, dtype=torch.float64)
    terms = rewards.difference(phi[1:], phi[:-1], discount)
    powers = discount ** torch.arange(len(terms), dtype=torch.float64)
    total = discount ** len(terms) * phi[-1] - phi[0]
    assert (powers * terms).sum().item() == pytest.approx(total.item(), abs=1e-9)


def test_the_tanh_of_differences_does_not_telescope() -> None:
    there_and_back = torch.tensor([0.0, 0.9, 0.5, 0.0], dtype=torch.float64)
    terms = rewards.difference(there_and_back[1:], there_and_back[:-1], 1.0)
    assert terms.sum().item() == pytest.approx(0)
    assert abs(rewards.slope(terms, 0.5).sum().item()) > 0.1


@given(cosines, cosines, cosines, st.floats(0, 1), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1))
def test_everything_stays_in_its_range(
    instruction: float, image: float, agreed: float, base: float, weight: float, rate: float, share: float
) -> None:
    phi = rewards.goal_potential(one(instruction), one(image), 0.05)
    assert -1 <= phi.item() <= 1
    for how in rewards.AGREEMENTS.values():
        alpha = (base * how(one(agreed))).clamp(0.1, 0.9)
        assert 0.1 <= alpha.item() <= 0.9
        assert -1 <= rewards.mixture(phi, one(weight), alpha).item() <= 1
    reached = rewards.progress(torch.tensor([rate], dtype=torch.float64), one(share), torch.tensor([[True]]))
    assert 0.01 - 1e-9 <= rewards.strength(reached, 0.01, 0.1).item() <= 0.1 + 1e-9
    np.testing.assert_array_less(reached.numpy(), 1 + 1e-9)
