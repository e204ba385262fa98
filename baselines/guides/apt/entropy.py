"""Particle entropy: distances to the nearest neighbours among a set of points, and the reward that they give."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from guidebench.harness.interfaces import Array

FLOATS = 2**24
"""Largest number of floats of an intermediate result for one seed, 64 MiB; more points are taken in blocks."""


def nearest(points: Tensor, particles: Tensor, left_out: Tensor, k: int) -> Tensor:
    """Return the Euclidean distances from points [S, N, D] to their k nearest particles [S, M, D], in no order, float32
    [S, N, k].

    `left_out`, bool [S, N, M], says which particles do not count for which point. Where fewer than k count, the others
    are infinite.

    Neighbours are found by squared distances |x|² + |y|² − 2x·y, one matrix product; rounding may exchange neighbours
    whose distances are nearly equal. The distances to those found are computed from the differences x − y.
    """
    seeds, size, width = particles.shape
    count = min(k, size)
    centre = particles.mean(1, keepdim=True)  # smaller numbers cancel with less error
    others = particles - centre
    centred = others if points is particles else points - centre
    squares, every = others.square().sum(2).unsqueeze(1), others.reshape(-1, width)
    first = size * torch.arange(seeds, device=points.device).view(-1, 1, 1)
    parts = []
    for start in range(0, points.shape[1], step := max(1, FLOATS // (size + count * width))):
        block = slice(start, start + step)
        squared = torch.baddbmm(squares, centred[:, block], others.mT, alpha=-2.0)  # |x|² changes no order
        close = squared.masked_fill_(left_out[:, block], torch.inf).topk(count, 2, largest=False, sorted=False)
        chosen = every.index_select(0, (close.indices + first).flatten()).view(*close.indices.shape, width)
        away = torch.linalg.vector_norm(chosen.sub_(centred[:, block].unsqueeze(2)), dim=3)
        parts.append(away.masked_fill_(close.values == torch.inf, torch.inf))
    together = torch.cat(parts, 1)
    return torch.nn.functional.pad(together, (0, k - count), value=torch.inf)


def reward(distances: Array, scale: Array, constant: float) -> Array:
    """Return log(constant + mean of a point's distances / scale) for distances [S, N, k] and scale [S], float64 [S, N].

    Infinite distances do not count, and a point without others has the mean 0 (Liu and Abbeel 2021, §3; scale: URLB,
    released code)."""
    counted = distances != np.inf  # not a number stays so, and stops its seed
    total = np.where(counted, distances, 0.0).sum(2, dtype=np.float64)
    mean = total / np.maximum(counted.sum(2), 1)
    return np.asarray(np.log(constant + mean / scale[:, None]))


def not_counted(points: Array, numbers: Array) -> Array:
    """Return which particles are left out for which point, bool [S, N, M]: the point itself, and further copies of a
    particle. `points` [S, N] and `numbers` [S, M] are the numbers of the points' and the particles'
    transitions."""
    copies = np.ones(numbers.shape, bool)
    for row, particles in enumerate(numbers):
        copies[row, np.unique(particles, return_index=True)[1]] = False
    return np.asarray((points[:, :, None] == numbers[:, None, :]) | copies[:, None, :])
