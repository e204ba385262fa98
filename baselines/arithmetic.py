"""Multiply-adds of the networks of `guidebench.baselines.networks` for one input of one seed, from their widths alone.

Run time estimates need only these numbers of a network, so `--dry-run` works without importing torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def mlp(widths: Sequence[int]) -> int:
    """Return multiply-adds of linear layers with these widths."""
    return sum(a * b for a, b in itertools.pairwise(widths))
