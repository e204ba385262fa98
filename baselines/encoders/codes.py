"""A vector of codes as one-hot numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness.interfaces import Observations
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@register.encoder("codes")
class Codes(Encoder):
    """One-hot encoding of each code, concatenated."""

    reading: ClassVar[str] = "a vector of codes"
    learns: ClassVar[bool] = False

    def reads(self, part: Observations) -> bool:
        return len(part.shape) == 1 and part.categories is not None and part.shape[0] == len(part.categories)

    def width(self, part: Observations, sizes: Sizes) -> int:
        return sum(part.categories or ())

    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        return 0

    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        from guidebench.baselines.networks import OneHot

        assert part.categories is not None
        return OneHot(part.categories)
