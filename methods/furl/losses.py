"""FuRL's rewards and losses, as functions of cosines between projected frames and the projected instruction.

Cosines are tensors [S, B]; losses are [S], the mean over the batch, so that each seed has its own gradient. A mask
excludes transitions whose vectors have not arrived.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def cosine(frames: Tensor, text: Tensor) -> Tensor:
    """Return cos(x, y) of frames [S, B, d] and one text for each seed [S, 1, d], [S, B] (FuRL, r^VLM)."""
    return F.cosine_similarity(frames, text, dim=2)


def ranking(cosines: Tensor, pairs: Tensor, has_vector: Tensor, margin: float) -> Tensor:
    """Return the ranking loss, the mean over i of Σ_j [d_i < d_j − gap]·max(0, margin − (c_i − c_j)), [S] (FuRL, before
    the first success).

    A frame that is nearer to the goal image by more than `gap` should have a cosine that is larger by `margin`.
    `pairs` bool [S, B, B]: which (i, j) are so ranked (`ranked`); `has_vector` bool [S, B]: which frames have a vector.
    """
    hinge = torch.relu(margin - (cosines.unsqueeze(2) - cosines.unsqueeze(1)))
    return (hinge * pairs).sum((1, 2)) / has_vector.sum(1).clamp(min=1)


def ranked(distances: Tensor, has_vector: Tensor, gap: float) -> Tensor:
    """Return which pairs (i, j) are ranked: frame i is nearer to the goal image than frame j by more than `gap`, bool
    [S, B, B]. `distances` [S, B] are Euclidean, between raw vectors; `has_vector` bool [S, B]."""
    nearer = distances.unsqueeze(2) - distances.unsqueeze(1) < -gap
    return nearer & has_vector.unsqueeze(2) & has_vector.unsqueeze(1)


def agreement(cosines: Tensor, pairs: Tensor) -> Tensor:
    """Return the share of the ranked `pairs` [S, B, B] in which the nearer frame has the larger cosine, [S]; NaN
    without a pair. It is ½ for cosines that know nothing of the distance."""
    right = pairs & (cosines.unsqueeze(2) > cosines.unsqueeze(1))
    return right.sum((1, 2)) / pairs.sum((1, 2))


def ranked_share(pairs: Tensor, has_vector: Tensor) -> Tensor:
    """Return the share of the pairs of two different frames with vectors that are ranked, [S]; NaN with less than two
    such frames. Whatever `agreement` says rests on this share alone."""
    count = has_vector.sum(1)
    return pairs.sum((1, 2)) / (count * (count - 1) / 2)


def successes(positive: Tensor, other: Tensor, has_vectors: Tensor, margin: float) -> Tensor:
    """Return the contrastive loss, the mean of [o − p + margin > 0]·(o − p), [S] (FuRL, after the first success; used
    once with negatives and once with lags).

    Frames of a success, `positive` [S, B], should have a larger cosine than their `other` frame [S, B]. The
    margin only decides which pairs count, as in FuRL's released code; a hinge has the same gradient.
    `has_vectors` bool [S, B]: which pairs have both vectors.
    """
    difference = other - positive
    counts = (difference.detach() + margin > 0) & has_vectors
    return (difference * counts).sum(1) / has_vectors.sum(1).clamp(min=1)
