"""FuRL's losses against values worked by hand, and against the same loops in plain Python."""

import pytest
import torch

from guidebench.methods.furl.losses import agreement, cosine, ranked, ranked_share, ranking, successes

ALL = torch.ones(1, 3, dtype=torch.bool)


def test_the_cosine_is_that_of_each_frame_with_its_seed_s_text() -> None:
    frames = torch.tensor([[[3.0, 4.0], [0.0, 2.0]], [[1.0, 0.0], [-1.0, 0.0]]])
    texts = torch.tensor([[[5.0, 0.0]], [[2.0, 0.0]]])
    assert cosine(frames, texts).tolist() == [[pytest.approx(0.6), 0.0], [1.0, -1.0]]


def test_a_frame_nearer_to_the_goal_by_more_than_the_gap_should_have_the_larger_cosine() -> None:
    # Frame 0 is nearer than 2 by .5, and than 1 by .2, which is within the gap; 1 is nearer than 2 by .3.
    cosines = torch.tensor([[0.3, 0.5, 0.35]])
    distances = torch.tensor([[1.0, 1.2, 1.5]])
    # pair (0, 2): .1 - (.3 - .35) = .15; pair (1, 2): .1 - (.5 - .35) < 0. The mean is over three frames.
    assert ranking(cosines, ranked(distances, ALL, 0.25), ALL, 0.1).tolist() == [pytest.approx(0.15 / 3)]
    without = torch.tensor([[True, True, False]])
    assert ranking(cosines, ranked(distances, without, 0.25), without, 0.1).tolist() == [0.0], "frame 2 has no vector"


def test_successes_count_where_the_margin_is_not_reached_and_lose_only_the_difference() -> None:
    positive = torch.tensor([[0.5, 0.5, 0.5]])
    other = torch.tensor([[0.7, 0.45, 0.3]])
    # .2 and -.05 count, since they exceed -.1; -.2 does not.
    assert successes(positive, other, ALL, 0.1).tolist() == [pytest.approx((0.2 - 0.05) / 3)]
    for mask, loss in (([[False, True, True]], -0.05 / 2), ([[False] * 3], 0.0)):
        assert successes(positive, other, torch.tensor(mask), 0.1).tolist() == [pytest.approx(loss)]


def test_the_gradient_of_successes_is_that_of_a_hinge() -> None:
    generator = torch.Generator().manual_seed(0)
    positive, other = (torch.rand(2, 40, generator=generator).requires_grad_() for _ in range(2))
    mask = torch.rand(2, 40, generator=generator) > 0.2
    gradients = torch.autograd.grad(successes(positive, other, mask, 0.1).sum(), (positive, other))
    hinge = (torch.relu(other - positive + 0.1) * mask).sum(1) / mask.sum(1)
    for gradient, expected in zip(gradients, torch.autograd.grad(hinge.sum(), (positive, other)), strict=True):
        torch.testing.assert_close(gradient, expected)


def test_agreement_is_the_share_of_ranked_pairs_in_the_right_order() -> None:
    """Of the distances 1, 2, 3 and 9 four pairs differ by more than 1.5, and the last frame has no vector."""
    cosines = torch.tensor([[0.5, 0.9, 0.4, 0.6, 7.0]])
    distances = torch.tensor([[1.0, 2.0, 3.0, 9.0, 0.0]])
    mask = torch.tensor([[True, True, True, True, False]])
    share = agreement(cosines, ranked(distances, mask, 1.5))
    # The pairs (0, 2), of cosines .5 > .4, and (1, 3), .9 > .6, are right; (0, 3), .5 < .6, and (2, 3), .4 < .6, wrong.
    assert share.tolist() == [0.5]
    assert agreement(cosines, ranked(distances, mask, 99.0)).isnan().all()


def test_agreement_rests_on_the_ranked_share_of_pairs() -> None:
    """Of distances 0, 1, 3 and a frame without a vector, (0, 3) and (1, 3) differ by more than 1.5: 2 of 3 pairs."""
    distances = torch.tensor([[0.0, 1.0, 3.0, 9.0], [5.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    share = ranked_share(ranked(distances, mask, 1.5), mask)
    assert share[0].item() == pytest.approx(2 / 3) and share[1].isnan()
