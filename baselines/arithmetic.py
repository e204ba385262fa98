"""Multiply-adds that the networks of `guidebench.baselines.networks` take for one input of one seed, from their widths
alone.

Estimates of hours need these numbers and nothing else of a network, so that `--dry-run` answers without torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def mlp(widths: Sequence[int]) -> int:
    """Of linear layers between these widths."""
    return sum(a * b for a, b in itertools.pairwise(widths))
