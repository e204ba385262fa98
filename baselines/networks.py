"""Networks of S seeds at once, as functions of named parameters [S, …] and inputs [S, B, …].

A network says which parameters it needs (`specs`) and computes with those it is given, so online and target
networks are one object and two sets of parameters. No operation mixes seeds. Linear and convolutional layers start
as PyTorch's do, uniform in ±1/sqrt(fan in).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.parameters import Spec
from guidebench.harness.interfaces import Observations

DILATIONS = (1, 2, 4)
"""Of the three residual blocks [choice: the paper gives only their number]; less where the kernel outgrows the grid."""


class Network(Protocol):
    """A function of parameters and inputs that declares its parameters."""

    def specs(self) -> dict[str, Spec]: ...

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor: ...


def linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[S, B, in] with weight [S, in, out] and bias [S, out] -> [S, B, out]."""
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight)


def conv2d(inputs: Tensor, weight: Tensor, bias: Tensor, dilation: int = 1) -> Tensor:
    """Convolution that keeps height and width: [S, B, H, W, in], weight [S, out, k, k, in] -> [S, B, H, W, out].

    One group per seed. Channels come last because that is what CPU kernels are fastest at."""
    seeds, batch, height, width, channels = inputs.shape
    out, kernel = weight.shape[1], weight.shape[2]
    grouped = inputs.permute(1, 0, 4, 2, 3).reshape(batch, seeds * channels, height, width)
    filters = weight.reshape(seeds * out, kernel, kernel, channels).permute(0, 3, 1, 2)
    padding = dilation * (kernel // 2)
    result = F.conv2d(grouped, filters, bias.reshape(-1), padding=padding, dilation=dilation, groups=seeds)
    return result.view(batch, seeds, out, height, width).permute(1, 0, 3, 4, 2)


class ToOne(torch.autograd.Function):
    """`linear` to a single number per input: [S, B, in], weight [S, in, 1], bias [S, 1] -> [S, B, 1].

    Batched products with a side of 1 are up to twenty times as slow on a CPU as other ways to write the same."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return torch.baddbmm(bias.unsqueeze(2), weight.mT, inputs.mT).mT

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        found = torch.bmm(gradient.mT, inputs).mT if ctx.needs_input_grad[1] else None
        return gradient * weight.mT, found, gradient.sum(1)


def linear_specs(name: str, into: int, out: int, orthogonal: bool = False) -> dict[str, Spec]:
    """Weight and bias of a linear layer, as PyTorch starts them, or an orthogonal weight and no bias."""
    if orthogonal:
        return {f"{name}.weight": Spec((into, out), "orthogonal", 1.0), f"{name}.bias": Spec((out,), "constant", 0.0)}
    scale = 1 / math.sqrt(into)
    return {f"{name}.weight": Spec((into, out), "uniform", scale), f"{name}.bias": Spec((out,), "uniform", scale)}


def _conv_specs(name: str, into: int, out: int, kernel: int) -> dict[str, Spec]:
    scale = 1 / math.sqrt(into * kernel * kernel)
    shape = (out, kernel, kernel, into)
    return {f"{name}.weight": Spec(shape, "uniform", scale), f"{name}.bias": Spec((out,), "uniform", scale)}


class MLP:
    """Linear layers with an activation between them, none after the last: [S, B, in] -> [S, B, out].

    `activation` works in place, by default max(x, 0). With `norm` every hidden layer is normalised before it, with a
    learnt scale and shift (Ba et al. 2016). With `orthogonal` weights start as orthogonal matrices and biases at 0."""

    def __init__(
        self,
        into: int,
        hidden: Sequence[int],
        out: int,
        name: str = "mlp",
        norm: bool = False,
        activation: Callable[[Tensor], Tensor] = Tensor.relu_,
        orthogonal: bool = False,
    ) -> None:
        self.orthogonal = orthogonal
        self.widths = (into, *hidden, out)
        self.names = [f"{name}.{layer}" for layer in range(len(hidden) + 1)]
        self.norm, self.activation = norm, activation

    def specs(self) -> dict[str, Spec]:
        layers = zip(self.names, self.widths, self.widths[1:], strict=False)
        specs = {key: spec for layer in layers for key, spec in linear_specs(*layer, self.orthogonal).items()}
        if self.norm:
            for name, width in zip(self.names, self.widths[1:-1], strict=False):
                specs[f"{name}.scale"] = Spec((width,), "constant", 1.0)
                specs[f"{name}.shift"] = Spec((width,), "constant", 0.0)
        return specs

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        *hidden, last = self.names
        for name in hidden:
            inputs = linear(inputs, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
            if self.norm:
                inputs = layer_norm(inputs, parameters[f"{name}.scale"], parameters[f"{name}.shift"])
            inputs = self.activation(inputs)
        to_last = ToOne.apply if self.widths[-1] == 1 else linear
        return to_last(inputs, parameters[f"{last}.weight"], parameters[f"{last}.bias"])


def layer_norm(inputs: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """[S, B, width] with mean 0 and variance 1 over the width, times scale [S, width], plus shift [S, width]."""
    normal = F.layer_norm(inputs, inputs.shape[2:])
    return torch.addcmul(shift.unsqueeze(1), normal, scale.unsqueeze(1))


def ensemble(network: Network, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """One number from each of N networks that see the same: parameters [S·N, …], inputs [S, B, …] -> [S, N, B]."""
    members = len(next(iter(parameters.values()))) // len(inputs)
    every = inputs.unsqueeze(1).expand(-1, members, *inputs.shape[1:]).flatten(0, 1)
    return network(parameters, every).view(len(inputs), members, -1)


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
            specs |= _conv_specs(f"{self.name}.block{block}.conv", self.channels, self.inner, 3)
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


def one_hot(codes: Tensor, categories: Sequence[int]) -> Tensor:
    """Codes [..., K] -> float32 [..., sum(categories)], one 1 per channel.

    A product with it is the sum of the K embeddings; unlike a lookup its gradient is a matrix product too, faster on
    a CPU and deterministic on a GPU."""
    starts = torch.tensor([sum(categories[:k]) for k in range(len(categories))], device=codes.device)
    result = torch.zeros(*codes.shape[:-1], sum(categories), device=codes.device)
    return result.scatter_(-1, codes + starts, 1.0)


def pool(cells: Tensor) -> Tensor:
    """Global average and maximum of each channel: [S, B, H, W, C] -> [S, B, 2C], averages first."""
    planes = cells.flatten(0, 1).permute(0, 3, 1, 2)
    # max_pool2d's gradient is ten times as fast as amax's on a CPU
    highest = F.max_pool2d(planes, planes.shape[2:]).view(*cells.shape[:2], -1)
    return torch.cat([cells.mean((2, 3)), highest], dim=-1)


class Chain:
    """Networks applied one after the other, of none the identity; their parameters' names must differ."""

    def __init__(self, *parts: Network) -> None:
        self.parts = parts

    def specs(self) -> dict[str, Spec]:
        return {name: spec for part in self.parts for name, spec in part.specs().items()}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        for part in self.parts:
            inputs = part(parameters, inputs)
        return inputs


class Relu:
    """max(x, 0), without parameters."""

    def specs(self) -> dict[str, Spec]:
        return {}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        return inputs.relu()


def is_grid(observations: Observations) -> bool:
    """Whether these are codes of a symbolic grid [H, W, K], not a vector."""
    return observations.categories is not None and len(observations.shape) == 3


def encoder(observations: Observations, channels: int, features: int, hidden: Sequence[int]) -> Network | None:
    """What turns these observations into features: the grid's encoder, or a vector's hidden layers, if any."""
    if is_grid(observations):
        return GridEncoder(observations, channels, features)
    if not hidden:
        return None
    return Chain(MLP(observations.shape[0], hidden[:-1], hidden[-1], "encoder"), Relu())


def for_observations(
    observations: Observations, channels: int, features: int, hidden: Sequence[int], out: int
) -> Network:
    """The network that these observations need: an encoder and an MLP for a symbolic grid, an MLP for a vector."""
    if is_grid(observations):
        return Chain(GridEncoder(observations, channels, features), MLP(features, hidden, out, "head"))
    return MLP(observations.shape[0], hidden, out, "head")
