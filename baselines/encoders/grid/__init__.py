"""Symbolic grids: embedded codes, residual blocks of dilated convolutions, pooling (VLM-RB, app. E.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness.interfaces import Observations
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network

DILATIONS = (1, 2, 4)
"""Dilations of the three residual blocks (VLM-RB, app. E.1) [choice: the paper gives only their number]; reduced where
the kernel would exceed the grid."""


@register.encoder("grid")
class Grid(Encoder):
    """VLM-RB's grid encoder, with as many features as the learner requests."""

    reading: ClassVar[str] = "codes as a grid [height, width, channels]"

    def reads(self, part: Observations) -> bool:
        return len(part.shape) == 3 and part.categories is not None and part.shape[2] == len(part.categories)

    def width(self, part: Observations, sizes: Sizes) -> int:
        return sizes.features

    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        """Return multiply-adds of the embeddings, the blocks (3×3 to half the channels, 1×1 back) and the layer after
        pooling."""
        assert part.categories is not None
        height, width = part.shape[:2]
        inner = max(1, sizes.channels // 2)
        cell = (sum(part.categories) + len(DILATIONS) * 10 * inner) * sizes.channels
        return height * width * cell + 2 * sizes.channels * sizes.features

    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        from guidebench.baselines.encoders.grid.network import GridEncoder

        return GridEncoder(part, sizes.channels, sizes.features, name)
