"""Images: the convolutions of Mnih et al. (2015), and a linear layer whose normalised output is the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness.interfaces import Observations
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


class Layer(NamedTuple):
    """A convolution without padding."""

    channels: int
    kernel: int
    stride: int


LAYERS: Mapping[int, Sequence[Layer]] = {
    36: (Layer(32, 8, 4), Layer(64, 4, 2), Layer(64, 3, 1)),
    15: (Layer(32, 3, 2), Layer(64, 3, 2), Layer(64, 3, 1)),
    7: (Layer(32, 3, 1), Layer(64, 3, 1), Layer(64, 3, 1)),
}
"""Smallest shorter side, in pixels -> layers. Those of Mnih et al. (2015) need 36 pixels; smaller images use kernels of
3 and smaller strides [choice]."""
LEAST = min(LAYERS)


@register.encoder("image")
class Image(Encoder):
    """Three convolutions with ReLU, one linear layer, layer normalisation, ReLU (Mnih et al. 2015; choice: the
    normalisation, following Yarats et al. 2021)."""

    reading: ClassVar[str] = f"an image, uint8 [height, width, channels] of at least {LEAST} pixels a side"

    def reads(self, part: Observations) -> bool:
        return (
            len(part.shape) == 3 and part.categories is None and part.dtype == "uint8" and min(part.shape[:2]) >= LEAST
        )

    def width(self, part: Observations, sizes: Sizes) -> int:
        return sizes.features

    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        height, width, channels = part.shape
        total = 0
        for layer in layers(part):
            height, width = ((side - layer.kernel) // layer.stride + 1 for side in (height, width))
            total += height * width * layer.kernel**2 * channels * layer.channels
            channels = layer.channels
        return total + height * width * channels * sizes.features

    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        from guidebench.baselines.encoders.image.network import ImageEncoder

        return ImageEncoder(part, sizes.features, name)


def layers(part: Observations) -> Sequence[Layer]:
    """Return the convolutions for images of this size."""
    return LAYERS[max(least for least in LAYERS if least <= min(part.shape[:2]))]
