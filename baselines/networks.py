"""Networks of S seeds at once, as functions of named parameters [S, …] and inputs [S, B, …].

A network declares its parameters (`specs`) and computes with those passed in, so online and target networks are one
object with two sets of parameters. No operation mixes seeds. Linear and convolutional layers are initialised as in
PyTorch, uniform in ±1/sqrt(fan in).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.parameters import Spec


class Network(Protocol):
    """A function of parameters and inputs that declares its parameters."""

    def specs(self) -> dict[str, Spec]: ...

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Any) -> Tensor: ...


def linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return [S, B, out] from inputs [S, B, in], weight [S, in, out] and bias [S, out]."""
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight)


def conv2d(
    inputs: Tensor, weight: Tensor, bias: Tensor, dilation: int = 1, stride: int = 1, padding: int | None = None
) -> Tensor:
    """Convolve [S, B, H, W, in] with weight [S, out, k, k, in] -> [S, B, H', W', out]; stride 1 keeps height and width
    unless `padding` is given.

    There is one group per seed. Channels come last because CPU kernels are fastest with that layout.
    """
    seeds, batch, height, width, channels = inputs.shape
    out, kernel = weight.shape[1], weight.shape[2]
    grouped = inputs.permute(1, 0, 4, 2, 3).reshape(batch, seeds * channels, height, width)
    filters = weight.reshape(seeds * out, kernel, kernel, channels).permute(0, 3, 1, 2)
    padding = dilation * (kernel // 2) if padding is None else padding
    outputs = F.conv2d(grouped, filters, bias.reshape(-1), stride, padding, dilation, seeds)
    return outputs.view(batch, seeds, out, *outputs.shape[2:]).permute(1, 0, 3, 4, 2)


class ToOne(torch.autograd.Function):
    """`linear` to a single number per input: [S, B, in], weight [S, in, 1], bias [S, 1] -> [S, B, 1].

    Batched products with a side of 1 are up to twenty times slower on a CPU than this equivalent form.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return torch.baddbmm(bias.unsqueeze(2), weight.mT, inputs.mT).mT

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        weight_gradient = torch.bmm(gradient.mT, inputs).mT if ctx.needs_input_grad[1] else None
        return gradient * weight.mT, weight_gradient, gradient.sum(1)


class AddedTo(torch.autograd.Function):
    """Products of K inputs with a weight, each added to what the K have in common: common [S, B, out], inputs [S, B·K,
    A] without gradient, weight [S, A, out] -> [S, B·K, out].

    Autograd's own graph of this sum would copy it twice.
    """

    @staticmethod
    def forward(ctx: Any, common: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(inputs)
        seeds, batch, out = common.shape
        ctx.shape = (seeds, batch, -1, out)
        outputs = torch.bmm(inputs, weight)
        outputs.view(ctx.shape).add_(common.unsqueeze(2))
        return outputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        (inputs,) = ctx.saved_tensors
        return gradient.view(ctx.shape).sum(2), None, torch.bmm(inputs.mT, gradient)


def linear_specs(name: str, into: int, out: int, initialisation: str = "uniform") -> dict[str, Spec]:
    """Return specs of a linear layer's weight and bias: `uniform`, PyTorch's initialisation; `orthogonal`, an
    orthogonal weight; or `lecun`, a truncated normal weight of variance 1/into (Flax's default). The last two have a
    bias of 0."""
    scale = 1 / math.sqrt(into)
    if initialisation != "uniform":
        weights = {"orthogonal": Spec((into, out), "orthogonal", 1.0), "lecun": Spec((into, out), "truncated", scale)}
        return {f"{name}.weight": weights[initialisation], f"{name}.bias": Spec((out,), "constant", 0.0)}
    return {f"{name}.weight": Spec((into, out), "uniform", scale), f"{name}.bias": Spec((out,), "uniform", scale)}


def conv_specs(name: str, into: int, out: int, kernel: int) -> dict[str, Spec]:
    """Return specs of a convolution's weight [out, k, k, in] and bias, with PyTorch's initialisation."""
    scale = 1 / math.sqrt(into * kernel * kernel)
    shape = (out, kernel, kernel, into)
    return {f"{name}.weight": Spec(shape, "uniform", scale), f"{name}.bias": Spec((out,), "uniform", scale)}


class MLP:
    """Linear layers with an activation between them, none after the last: [S, B, in] -> [S, B, out].

    `activation` works in place, by default max(x, 0). With `norm`, every hidden layer is normalised before its
    activation, with a learnt scale and shift (Ba et al. 2016). `initialisation` is one of `linear_specs`.
    """

    def __init__(
        self,
        into: int,
        hidden: Sequence[int],
        out: int,
        name: str = "mlp",
        norm: bool = False,
        activation: Callable[[Tensor], Tensor] = Tensor.relu_,
        initialisation: str = "uniform",
    ) -> None:
        self.initialisation = initialisation
        self.widths = (into, *hidden, out)
        self.names = [f"{name}.{layer}" for layer in range(len(hidden) + 1)]
        self.norm, self.activation = norm, activation

    def specs(self) -> dict[str, Spec]:
        layers = zip(self.names, self.widths, self.widths[1:], strict=False)
        specs = {key: spec for layer in layers for key, spec in linear_specs(*layer, self.initialisation).items()}
        if self.norm:
            for name, width in zip(self.names, self.widths[1:-1], strict=False):
                specs[f"{name}.scale"] = Spec((width,), "constant", 1.0)
                specs[f"{name}.shift"] = Spec((width,), "constant", 0.0)
        return specs

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        for layer, name in enumerate(self.names[:-1]):
            inputs = self._activated(parameters, layer, linear(inputs, *_layer(parameters, name)))
        return self._last(parameters, inputs)

    def over(self, parameters: Mapping[str, Tensor], shared: Tensor, extra: Tensor) -> Tensor:
        """Return the outputs [S, B, K, out] for inputs that join `shared` [S, B, D] to each of `extra` [S, B, K, A].

        The first layer multiplies `shared` once for all K.
        """
        seeds, batch, count, _ = extra.shape
        first, split = self.names[0], shared.shape[2]
        weight, bias = _layer(parameters, first)
        common = linear(shared, weight[:, :split], bias)
        inputs: Tensor = AddedTo.apply(common, extra.flatten(1, 2), weight[:, split:])
        if len(self.names) > 1:
            inputs = self._activated(parameters, 0, inputs)
            for layer, name in enumerate(self.names[1:-1], 1):
                inputs = self._activated(parameters, layer, linear(inputs, *_layer(parameters, name)))
            inputs = self._last(parameters, inputs)
        return inputs.view(seeds, batch, count, -1)

    def _activated(self, parameters: Mapping[str, Tensor], layer: int, outputs: Tensor) -> Tensor:
        """Return the outputs of a hidden layer after its normalisation and activation."""
        if self.norm:
            name = self.names[layer]
            outputs = layer_norm(outputs, parameters[f"{name}.scale"], parameters[f"{name}.shift"])
        return self.activation(outputs)

    def _last(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        to_last = ToOne.apply if self.widths[-1] == 1 else linear
        return to_last(inputs, *_layer(parameters, self.names[-1]))


def _layer(parameters: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a linear layer."""
    return parameters[f"{name}.weight"], parameters[f"{name}.bias"]


def layer_norm(inputs: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Normalise [S, B, width] to mean 0 and variance 1 over the width, then apply scale [S, width] and shift [S,
    width]."""
    normal = F.layer_norm(inputs, inputs.shape[2:])
    return torch.addcmul(shift.unsqueeze(1), normal, scale.unsqueeze(1))


def ensemble(network: Network, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Return one number from each of N networks with the same inputs: parameters [S·N, …], inputs [S, B, …] -> [S, N,
    B]."""
    members = len(next(iter(parameters.values()))) // len(inputs)
    every = inputs.unsqueeze(1).expand(-1, members, *inputs.shape[1:]).flatten(0, 1)
    return network(parameters, every).view(len(inputs), members, -1)


ROWS = 1280
"""Rows of a product on a CPU, whose results of 256 numbers stay in a core's cache."""


def ensemble_over(network: MLP, parameters: Mapping[str, Tensor], shared: Tensor, extra: Tensor) -> Tensor:
    """Return one number from each of N networks for each of K inputs, which join `shared` [S, B, D] to one of `extra`
    [S, B, K, A]: parameters [S·N, …] -> [S, N, B, K].

    On a CPU, where S is 1, they are evaluated one after the other, with a few of the K inputs at a time.
    """
    members = len(next(iter(parameters.values()))) // len(shared)
    if shared.device.type != "cpu" or len(shared) > 1:

        def every(inputs: Tensor) -> Tensor:
            return inputs.unsqueeze(1).expand(-1, members, *inputs.shape[1:]).flatten(0, 1)

        outputs = network.over(parameters, every(shared), every(extra))
        return outputs.view(len(shared), members, *extra.shape[1:3])
    single = {name: torch.split(values, 1) for name, values in parameters.items()}
    pieces = torch.split(extra, max(1, ROWS // extra.shape[1]), 2)
    rows = [
        torch.cat(
            [network.over({name: views[m] for name, views in single.items()}, shared, piece) for piece in pieces], 2
        )
        for m in range(members)
    ]
    return torch.cat(rows).squeeze(3).unsqueeze(0)


def one_hot(codes: Tensor, categories: Sequence[int]) -> Tensor:
    """Return codes [..., K] as one-hot float32 [..., sum(categories)], with one 1 per channel.

    Multiplying it by a weight matrix sums the K embeddings. Unlike for a lookup, the gradient is a matrix product too,
    faster on a CPU and deterministic on a GPU.
    """
    encoded = torch.zeros(*codes.shape[:-1], sum(categories), device=codes.device)
    return encoded.scatter_(-1, codes + _starts(tuple(categories), codes.device), 1.0)


@functools.cache
def _starts(categories: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the first index of each channel's codes; cached, since a CUDA graph cannot contain a copy from the CPU."""
    return torch.tensor([sum(categories[:k]) for k in range(len(categories))], device=device)


class OneHot:
    """`one_hot` of codes [S, B, K], without parameters."""

    def __init__(self, categories: Sequence[int]) -> None:
        self.categories = categories

    def specs(self) -> dict[str, Spec]:
        return {}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        return one_hot(inputs, self.categories)


class Chain:
    """Networks applied one after the other; without any, the identity. The names of their parameters must differ."""

    def __init__(self, *parts: Network) -> None:
        self.parts: list[Network] = []
        for part in parts:
            self.parts += part.parts if isinstance(part, Chain) else [part]

    def specs(self) -> dict[str, Spec]:
        return {name: spec for part in self.parts for name, spec in part.specs().items()}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Any) -> Tensor:
        for part in self.parts:
            inputs = part(parameters, inputs)
        outputs: Tensor = inputs
        return outputs


class Relu:
    """max(x, 0), without parameters."""

    def specs(self) -> dict[str, Spec]:
        return {}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        return inputs.relu()


class Joined:
    """One network per named part of the inputs; their outputs [S, B, width] are concatenated in this order."""

    def __init__(self, parts: Mapping[str, Network]) -> None:
        self.parts = parts

    def specs(self) -> dict[str, Spec]:
        return {name: spec for part in self.parts.values() for name, spec in part.specs().items()}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Tensor:
        features = [part(parameters, inputs[name]) for name, part in self.parts.items()]
        return features[0] if len(features) == 1 else torch.cat(features, 2)
