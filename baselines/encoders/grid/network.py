"""VLM-RB's encoder of a symbolic grid for S seeds at once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.encoders.grid import DILATIONS
from guidebench.baselines.networks import conv2d, conv_specs, linear, linear_specs, one_hot
from guidebench.baselines.parameters import Spec
from guidebench.harness.interfaces import Observations


class GridEncoder:
    """Encoder of a symbolic grid: codes [S, B, H, W, K] -> features [S, B, features] (VLM-RB, app. E.1).

    Each channel of the grid is embedded, three residual blocks of dilated convolutions follow, then global average
    and maximum pooling and a linear layer with ReLU. One table of width `channels` per channel of the grid, summed,
    is the same as concatenating narrower embeddings and mixing them by a 1×1 convolution: the mixing is in the
    tables. A block is x + W·relu(conv(relu(x))): the convolution is 3×3 and halves the channels, W is pointwise and
    restores them; ReLU comes before pooling too [choice].
    """

    def __init__(self, observations: Observations, channels: int, features: int, name: str = "encoder") -> None:
        assert observations.categories is not None
        self.height, self.width = observations.shape[:2]
        self.categories = observations.categories
        self.channels, self.inner, self.features, self.name = channels, max(1, channels // 2), features, name
        reach = max(1, (min(self.height, self.width) - 1) // 2)
        self.dilations = [min(dilation, reach) for dilation in DILATIONS]

    def specs(self) -> dict[str, Spec]:
        specs = {f"{self.name}.embedding": Spec((sum(self.categories), self.channels), "normal", 1.0)}
        for block in range(len(self.dilations)):
            specs |= conv_specs(f"{self.name}.block{block}.conv", self.channels, self.inner, 3)
            scale = 1 / math.sqrt(self.inner)
            specs[f"{self.name}.block{block}.mix"] = Spec((self.inner, self.channels), "uniform", scale)
        return specs | linear_specs(f"{self.name}.pooled", 2 * self.channels, self.features)

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        def take(layer: str) -> tuple[Tensor, Tensor]:
            return parameters[f"{self.name}.{layer}.weight"], parameters[f"{self.name}.{layer}.bias"]

        shape = (*inputs.shape[:4], self.channels)
        cells = one_hot(inputs, self.categories).flatten(1, 3)
        x = torch.bmm(cells, parameters[f"{self.name}.embedding"])
        for block, dilation in enumerate(self.dilations):
            inner = conv2d(x.relu().view(shape), *take(f"block{block}.conv"), dilation).relu_()
            x = torch.baddbmm(x, inner.flatten(1, 3), parameters[f"{self.name}.block{block}.mix"])
        return linear(pool(x.relu().view(shape)), *take("pooled")).relu_()


def pool(cells: Tensor) -> Tensor:
    """Return the global average and maximum of each channel: [S, B, H, W, C] -> [S, B, 2C], averages first."""
    planes = cells.flatten(0, 1).permute(0, 3, 1, 2)
    # max_pool2d's gradient is ten times as fast as amax's on a CPU
    highest = F.max_pool2d(planes, planes.shape[2:]).view(*cells.shape[:2], -1)
    return torch.cat([cells.mean((2, 3)), highest], dim=-1)
