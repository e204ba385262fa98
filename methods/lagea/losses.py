"""LaGEA's losses, which align feedback with images in one space, and the weights of their samples.

S seeds, each with a batch of B samples: image i and the feedback i of its episode, projected to unit vectors z_i and
f_i. `complete`, bool [S, B], is true for samples that have both; the others are ignored. Losses are [S], so that each
seed has its own gradient. Weights carry no gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def unit(vectors: Tensor) -> Tensor:
    """Return vectors [..., d] scaled to length 1; a zero vector stays zero."""
    return F.normalize(vectors, dim=-1)


class Samples(NamedTuple):
    """The projected samples that the losses compare."""

    images: Tensor
    """z, unit vectors [S, B, d]."""
    feedback: Tensor
    """f, unit vectors [S, B, d]."""
    success: Tensor
    """y, whether the task is solved in the image, float [S, B], 0 or 1."""
    complete: Tensor
    """Whether a sample has both image and feedback, bool [S, B]."""
    rivals: Tensor
    """Whether sample j is a negative of sample i, or i itself, bool [S, B, B]; negatives must both be complete."""

    @property
    def cosines(self) -> Tensor:
        """ψ_i = ⟨z_i, f_i⟩, [S, B]."""
        return (self.images * self.feedback).sum(2)

    @property
    def similarities(self) -> Tensor:
        """⟨f_i, z_j⟩, [S, B, B]."""
        return self.feedback @ self.images.mT


def proximity_weights(saliency: Tensor, closeness: Tensor, complete: Tensor) -> Tensor:
    """Return u_i, [S, B]: ŵ_i·(1 + ⟨z_i, z_g⟩) / 2, scaled to mean 1 over the complete samples (LaGEA, §3.1.3).

    `saliency`: ŵ; `closeness`: ⟨z, z_g⟩ in [-1, 1]."""
    return _mean_one(saliency * (1 + closeness.detach()) / 2, complete)


def released_weights(saliency: Tensor, closeness: Tensor, complete: Tensor) -> Tensor:
    """Return the weights of the first two losses in LaGEA's released code, [S, B]: ŵ·(½ + ½·(1 + ⟨z, z_g⟩) / 2), scaled
    to mean 1 and then limited to 3."""
    return _mean_one(saliency * (0.5 + 0.25 * (1 + closeness.detach())), complete).clamp(max=3)


def released_contrast_weights(saliency: Tensor, closeness: Tensor, success: Tensor, complete: Tensor) -> Tensor:
    """Return the weights of the symmetric loss in LaGEA's released code, [S, B]: ŵ·(½ + ½·y)·(1 + ⟨z, z_g⟩) / 2, scaled
    to mean 1."""
    return _mean_one(saliency * (0.5 + 0.5 * success) * (1 + closeness.detach()) / 2, complete)


def _mean_one(weights: Tensor, complete: Tensor) -> Tensor:
    weights = torch.where(complete, weights, 0.0)
    mean = weights.sum(1, keepdim=True) / complete.sum(1, keepdim=True).clamp(min=1)
    return weights / mean.clamp(min=1e-8)


def calibration(samples: Samples, weights: Tensor, temperature: float) -> Tensor:
    """Return L_bce = Σ u_i·BCE(σ(ψ_i / τ), y_i) / Σ u_i, [S] (LaGEA, §3.1.3)."""
    sample_losses = F.binary_cross_entropy_with_logits(samples.cosines / temperature, samples.success, reduction="none")
    return _weighted(sample_losses, weights)


def discrimination(samples: Samples, weights: Tensor, temperature: float) -> Tensor:
    """Return L_nce = Σ_{y_i = 1} u_i·CE(softmax_j(⟨f_i, z_j⟩ / τ), i) / Σ_{y_i = 1} u_i, [S]; 0 without a success
    (LaGEA, §3.1.3)."""
    sample_losses = _cross_entropy(samples.similarities / temperature, samples.rivals, 0.0)
    return _weighted(sample_losses, weights * samples.success)


def contrast(samples: Samples, weights: Tensor, temperature: float, smoothing: float) -> Tensor:
    """Return ½·(CE_fi + CE_if), [S]: weighted cross-entropies of feedback to images and of images to feedback
    (LaGEA, §3.1.3, L_sym).

    `smoothing` ε: the target is 1 − ε for the sample's own image, and ε spread evenly over all candidates."""
    logits = samples.similarities / temperature
    forth = _cross_entropy(logits, samples.rivals, smoothing)
    back = _cross_entropy(logits.mT, samples.rivals.mT, smoothing)
    return (_weighted(forth, weights) + _weighted(back, weights)) / 2


def alignment(samples: Samples) -> Tensor:
    """Return E‖z_i − f_i‖², [S] (LaGEA, §3.1.3, L_sym)."""
    squares = (samples.images - samples.feedback).square().sum(2)
    return _weighted(squares, samples.complete.to(squares.dtype))


def uniformity(samples: Samples) -> Tensor:
    """Return log E_{a ≠ b} exp(−2‖z_a − z_b‖²) over images and feedback together, [S] (LaGEA, §3.1.3, L_sym)."""
    points = torch.cat([samples.images, samples.feedback], 1)
    complete = torch.cat([samples.complete, samples.complete], 1)
    pairs = complete.unsqueeze(2) & complete.unsqueeze(1)
    different = ~torch.eye(points.shape[1], dtype=torch.bool, device=points.device)
    return _spread(points, pairs & different)


def released_uniformity(samples: Samples) -> Tensor:
    """Return the mean of the images' uniformity and the feedback's, each point paired with itself too, [S] (LaGEA,
    released code)."""
    pairs = samples.complete.unsqueeze(2) & samples.complete.unsqueeze(1)
    return (_spread(samples.images, pairs) + _spread(samples.feedback, pairs)) / 2


def _spread(points: Tensor, pairs: Tensor) -> Tensor:
    """Return log of the mean over `pairs` of exp(−2‖a − b‖²) for unit vectors, [S]; 0 without a pair."""
    squares = 2 - 2 * (points @ points.mT)
    count = pairs.sum((1, 2))
    mean = (torch.exp(-2 * squares) * pairs).sum((1, 2)) / count.clamp(min=1)
    return torch.where(count > 0, torch.log(mean.clamp(min=1e-12)), 0.0)


def _cross_entropy(logits: Tensor, candidates: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy of each row's softmax over its candidates with its own diagonal entry, [S, B]."""
    log = torch.log_softmax(logits.masked_fill(~candidates, -1e9), 2)
    diagonal = -torch.diagonal(log, dim1=1, dim2=2)
    if not smoothing:
        return diagonal
    others = -(log * candidates).sum(2) / candidates.sum(2).clamp(min=1)
    return (1 - smoothing) * diagonal + smoothing * others


def _weighted(sample_losses: Tensor, weights: Tensor) -> Tensor:
    """Return Σ w·x / Σ w, [S]; 0 if no weight is positive."""
    total = weights.sum(1)
    return torch.where(total > 0, (sample_losses * weights).sum(1) / total.clamp(min=1e-8), 0.0)
