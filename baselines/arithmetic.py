"""Multiply-adds that the networks of `guidebench.baselines.networks` take for one input of one seed, from their widths
alone.

Estimates of hours need these numbers and nothing else of a network, so that `--dry-run` answers without torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from guidebench.harness.interfaces import Observations

BLOCKS = 3
"""Residual blocks of the grid encoder (VLM-RB, app. E.1)."""


def mlp(widths: Sequence[int]) -> int:
    """Of linear layers between these widths."""
    return sum(a * b for a, b in itertools.pairwise(widths))


def grid_encoder(observations: Observations, channels: int, features: int) -> int:
    """Of the embeddings, the blocks (3×3 to half the channels, 1×1 back) and the layer after pooling."""
    assert observations.categories is not None
    height, width = observations.shape[:2]
    inner = max(1, channels // 2)
    cell = (sum(observations.categories) + BLOCKS * 10 * inner) * channels
    return height * width * cell + 2 * channels * features


def encoder(observations: Observations, channels: int, features: int, hidden: Sequence[int]) -> int:
    """Of the network that `guidebench.baselines.networks.encoder` makes of the same arguments; 0 if it makes none."""
    if observations.categories is not None and len(observations.shape) == 3:
        return grid_encoder(observations, channels, features)
    return mlp((observations.shape[0], *hidden))


def for_observations(observations: Observations, channels: int, features: int, hidden: Sequence[int], out: int) -> int:
    """Of the network that `guidebench.baselines.networks.for_observations` makes of the same arguments."""
    if observations.categories is not None and len(observations.shape) == 3:
        return grid_encoder(observations, channels, features) + mlp((features, *hidden, out))
    return mlp((observations.shape[0], *hidden, out))
