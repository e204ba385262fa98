"""LaGEA's losses on three samples, worked by hand, and beside another implementation on random ones."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from guidebench.methods.lagea import losses
from guidebench.methods.lagea.losses import Samples

ROOT = math.sqrt(0.5)
IMAGES = [[1.0, 0], [0, 1], [ROOT, ROOT]]
FEEDBACK = [[1.0, 0], [1, 0], [0, 1]]


def samples(mask: tuple[bool, ...] = (True, True, True), success: tuple[int, ...] = (1, 0, 1)) -> Samples:
    present = torch.tensor([mask])
    rivals = present.unsqueeze(2) & present.unsqueeze(1) | torch.eye(3, dtype=torch.bool)
    y = torch.tensor([success], dtype=torch.float64)
    return Samples(torch.tensor([IMAGES]).double(), torch.tensor([FEEDBACK]).double(), y, present, rivals)


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_weights_are_saliency_times_closeness_with_mean_one() -> None:
    present = torch.tensor([[True, True, True, False]])
    saliency, closeness = row(2, 1, 1, 5), row(1, 0, -1, 1)
    for weights, expected in (
        # u ∝ 2 · 1, 1 · ½, 1 · 0: their mean is 2.5 / 3.
        (losses.proximity_weights(saliency, closeness, present), [2.4, 0.6, 0, 0]),
        # The released code: 2 · 1, 1 · ¾, 1 · ½: mean 3.25 / 3.
        (losses.released_weights(saliency, closeness, present), [6 / 3.25, 2.25 / 3.25, 1.5 / 3.25, 0]),
        # And for its contrast, halved for failures: 2 · 1 · 1, 1 · ½ · ½, 0: mean 2.25 / 3.
        (
            losses.released_contrast_weights(saliency, closeness, row(1, 0, 1, 1), present),
            [6 / 2.25, 0.75 / 2.25, 0, 0],
        ),
    ):
        assert weights[0].tolist() == pytest.approx(expected)
    one_of_many = losses.released_weights(row(*[1000.0] + [1.0] * 9), row(*[1.0] * 10), torch.ones(1, 10).bool())
    assert one_of_many.max().item() == 3
    detached = losses.proximity_weights(saliency, closeness.requires_grad_(), present)
    assert not detached.requires_grad, "weights carry no gradient"


def test_calibration_is_weighted_binary_cross_entropy_of_the_cosines() -> None:
    # ψ = 1, 0, √½; with τ = .5 the logits are 2, 0, √2; weights 1, 2, 1.
    expected = (math.log(1 + math.exp(-2)) + 2 * math.log(2) + math.log(1 + math.exp(-math.sqrt(2)))) / 4
    assert losses.calibration(samples(), row(1, 2, 1), 0.5).item() == pytest.approx(expected)


def test_discrimination_asks_of_successes_that_feedback_finds_its_own_image() -> None:
    # f_0 · z = 1, 0, √½ and f_2 · z = 0, 1, √½; τ = 1; weights 3 and 1.
    total = 1 + math.e + math.exp(ROOT)
    expected = (3 * (math.log(total) - 1) + 1 * (math.log(total) - ROOT)) / 4
    assert losses.discrimination(samples(), row(3, 5, 1), 1.0).item() == pytest.approx(expected)
    assert losses.discrimination(samples(success=(0, 0, 0)), row(3, 5, 1), 1.0).item() == 0


def test_contrast_goes_both_ways_with_smoothed_labels() -> None:
    logits = np.array(FEEDBACK) @ np.array(IMAGES).T / 0.5

    def entropies(rows: np.ndarray) -> np.ndarray:
        log = rows - np.log(np.exp(rows).sum(1, keepdims=True))
        targets = 0.9 * np.eye(3) + 0.1 / 3
        return -(targets * log).sum(1)

    weights = np.array([1.0, 2.0, 1.0])
    expected = sum((weights * entropies(pairs)).sum() / 4 for pairs in (logits, logits.T)) / 2
    assert losses.contrast(samples(), row(1, 2, 1), 0.5, 0.1).item() == pytest.approx(expected)


def test_alignment_and_uniformity_are_of_squared_distances() -> None:
    # ‖z − f‖²: 0, 2, 2 − √2.
    assert losses.alignment(samples()).item() == pytest.approx((0 + 2 + 2 - math.sqrt(2)) / 3)
    points = np.array(IMAGES + FEEDBACK)
    squares = ((points[:, None] - points) ** 2).sum(2)
    different = ~np.eye(6, dtype=bool)
    assert losses.uniformity(samples()).item() == pytest.approx(math.log(np.exp(-2 * squares)[different].mean()))
    by_kind = [math.log(np.exp(-2 * squares[part, part]).mean()) for part in (slice(0, 3), slice(3, 6))]
    assert losses.released_uniformity(samples()).item() == pytest.approx(sum(by_kind) / 2)


def test_samples_that_are_not_there_change_no_loss() -> None:
    """Two samples give the same losses alone and beside an absent third, whatever values that holds."""
    first_two = samples((True, True, False))
    alone = Samples(*(tensor[:, :2] for tensor in first_two[:4]), first_two.rivals[:, :2, :2])
    weights = row(1, 2, 0)
    for loss in (
        lambda s, w: losses.calibration(s, w, 0.5),
        lambda s, w: losses.discrimination(s, w, 0.5),
        lambda s, w: losses.contrast(s, w, 0.5, 0.1),
        lambda s, w: losses.alignment(s),
        lambda s, w: losses.uniformity(s),
        lambda s, w: losses.released_uniformity(s),
    ):
        assert loss(first_two, weights).item() == pytest.approx(loss(alone, weights[:, :2]).item())


def test_the_gradient_of_calibration_pulls_successes_to_their_feedback_and_pushes_failures_away() -> None:
    vectors = torch.randn(2, 1, 8, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    images, feedback = losses.unit(vectors)
    y, everyone = row(*[0, 1] * 4), torch.ones(1, 8, dtype=torch.bool)
    now = Samples(images, feedback.requires_grad_(), y, everyone, everyone.unsqueeze(1).repeat(1, 8, 1))
    losses.calibration(now, torch.ones(1, 8).double(), 0.5).sum().backward()
    assert feedback.grad is not None
    risen = -(feedback.grad * images).sum(2) > 0
    assert risen.tolist() == (y == 1).tolist()
