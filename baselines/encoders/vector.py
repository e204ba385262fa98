"""Vectors are passed on as features unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness.interfaces import Observations
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@register.encoder("vector")
class Vector(Encoder):
    """The identity on a vector of floats."""

    reading: ClassVar[str] = "a vector of floats"
    learns: ClassVar[bool] = False

    def reads(self, part: Observations) -> bool:
        return len(part.shape) == 1 and part.categories is None and np.dtype(part.dtype).kind == "f"

    def width(self, part: Observations, sizes: Sizes) -> int:
        return part.shape[0]

    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        return 0

    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        from guidebench.baselines.networks import Chain

        return Chain()
