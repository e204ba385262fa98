"""The convolutions of Mnih et al. (2015) for S seeds at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from guidebench.baselines.encoders.image import layers
from guidebench.baselines.networks import conv2d, conv_specs, layer_norm, linear, linear_specs
from guidebench.baselines.parameters import Spec
from guidebench.harness.interfaces import Observations


class ImageEncoder:
    """Encoder of images: uint8 [S, B, H, W, C] -> features [S, B, features], at least 0.

    Pixels are divided by 255; frames of a stack are channels. Three convolutions with ReLU follow, flattened row by row
    with channels last, then relu(norm(linear(x))) with a learnt scale and shift.
    """

    def __init__(self, observations: Observations, features: int, name: str = "encoder") -> None:
        self.shape, self.features, self.name = observations.shape, features, name
        self.layers = layers(observations)

    def specs(self) -> dict[str, Spec]:
        height, width, channels = self.shape
        specs: dict[str, Spec] = {}
        for number, layer in enumerate(self.layers):
            specs |= conv_specs(f"{self.name}.conv{number}", channels, layer.channels, layer.kernel)
            height, width = ((side - layer.kernel) // layer.stride + 1 for side in (height, width))
            channels = layer.channels
        specs |= linear_specs(f"{self.name}.linear", height * width * channels, self.features)
        specs[f"{self.name}.scale"] = Spec((self.features,), "constant", 1.0)
        specs[f"{self.name}.shift"] = Spec((self.features,), "constant", 0.0)
        return specs

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        def of(name: str) -> Tensor:
            return parameters[f"{self.name}.{name}"]

        x = inputs.float().div_(255)
        for number, layer in enumerate(self.layers):
            x = conv2d(x, of(f"conv{number}.weight"), of(f"conv{number}.bias"), stride=layer.stride, padding=0).relu_()
        x = linear(x.flatten(2), of("linear.weight"), of("linear.bias"))
        return layer_norm(x, of("scale"), of("shift")).relu_()
