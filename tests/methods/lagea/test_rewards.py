"""Potentials, their differences and the mixture, with values worked by hand and by properties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guidebench.methods.lagea import rewards

cosines = st.floats(-1, 1, width=32)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        # ½(.6 + 1) − ½ = .3 and ½(−.2 + 1) − ½ = −.1; with τ = .5 the tanh are of .6 and −.2.
        (rewards.goal_potential(scalar(0.6), scalar(-0.2), 0.5), (math.tanh(0.6) + math.tanh(-0.2)) / 2),
        # The reward is the tanh of the discounted difference, .9 · .5 − .2.
        (rewards.difference(scalar(0.5), scalar(0.2), 0.9), 0.25), (rewards.slope(scalar(0.25), 0.5), math.tanh(0.5)),
        # α grows with agreement.
        (rewards.agreement(scalar(0.2)), 0.6), (rewards.agreement(scalar(-1.0)), 0),
        # The mixture is limited to the stated range; ŵ may exceed 1, so r^fb may.
        (rewards.mixture(scalar(0.5), scalar(-0.3), scalar(0.25)), 0.75 * 0.5 - 0.25 * 0.3),
        (rewards.mixture(scalar(1.0), scalar(8.0), scalar(0.9)), 1),
    ],
)  # fmt: skip
def test_terms_are_the_papers(term: torch.Tensor, expected: float) -> None:
    assert term.item() == pytest.approx(expected)


def test_progress_is_the_larger_of_success_and_of_the_squared_share_of_rises() -> None:
    goal = torch.tensor([[0.2, -0.1, 0.3, 0.1, 9.0], [0.2, -0.1, 0.3, 0.1, 9.0]])
    present = torch.tensor([[True, True, True, True, False]] * 2)
    progress = rewards.progress(torch.tensor([0.1, 0.8]), goal, present)  # (3 / 4)² = .5625
    assert progress.tolist() == pytest.approx([0.5625, 0.8])
    assert rewards.strength(progress, 0.01, 0.1).tolist() == pytest.approx([0.01 + 0.09 * 0.4375, 0.01 + 0.09 * 0.2])
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


def test_the_released_agreement_counts_a_negative_cosine_as_zero() -> None:
    """A cosine of .2: a = .6 and ½ + ½ · .6 = .8. One of −.9: a = ½ and ½ + ½ · ½ = .75."""
    assert rewards.released_agreement(scalar(0.2)).item() == pytest.approx(0.8)
    assert rewards.released_agreement(scalar(-0.9)).item() == pytest.approx(0.75)
