"""The feature network and what trains it: a forward and an inverse model of the dynamics (Pathak et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from guidebench.baselines.encoders import read
from guidebench.baselines.guides.apt import Apt
from guidebench.baselines.networks import MLP, Chain, layer_norm, linear, linear_specs, one_hot
from guidebench.baselines.parameters import Spec
from guidebench.baselines.tensors import ObservationTensors
from guidebench.harness.interfaces import Actions, Observations


class Trunk:
    """z = tanh(layer norm(W·x + b)), [S, B, in] -> [S, B, out], each entry in (−1, 1) (URLB, released code)."""

    def __init__(self, into: int, out: int) -> None:
        self._widths = into, out

    def specs(self) -> dict[str, Spec]:
        shape = (self._widths[1],)
        norm = {"trunk.scale": Spec(shape, "constant", 1.0), "trunk.shift": Spec(shape, "constant", 0.0)}
        return linear_specs("trunk", *self._widths, initialisation="orthogonal") | norm

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        outputs = linear(inputs, parameters["trunk.weight"], parameters["trunk.bias"])
        return layer_norm(outputs, parameters["trunk.scale"], parameters["trunk.shift"]).tanh()


class Losses(NamedTuple):
    """Losses [S, B] of the two models."""

    forward: Tensor
    inverse: Tensor


class Icm:
    """Features z = φ(s) of observations, a forward model f and an inverse model g.

    The forward model is to predict the next features, with the loss ‖z′ − f(z, a)‖. The inverse model is to tell the
    action: of discrete ones by the cross-entropy of softmax g(z, z′), of vectors by ‖a − tanh g(z, z′)‖. The inverse
    model's loss trains φ, through z and z′, and with `joint` the forward model's does too, as in URLB's released code.
    """

    def __init__(self, config: Apt, observations: Observations, actions: Actions) -> None:
        reading = read(observations, config.sizes())
        self._count, self._joint = actions.count, config.joint
        width = actions.count if actions.count is not None else math.prod(actions.shape)
        self.features = Chain(reading.network(), Trunk(reading.width, config.out))
        self._forward = MLP(config.out + width, config.hidden, config.out, "forward", initialisation="orthogonal")
        self._inverse = MLP(2 * config.out, config.hidden, width, "inverse", initialisation="orthogonal")

    def specs(self) -> dict[str, Spec]:
        return {**self.features.specs(), **self._forward.specs(), **self._inverse.specs()}

    def losses(
        self,
        parameters: Mapping[str, Tensor],
        observation: ObservationTensors,
        action: Tensor,
        following: ObservationTensors,
    ) -> Losses:
        """Return the losses of transitions: observations [S, B, …], actions [S, B] or [S, B, …], next observations."""
        features, next_features = self.features(parameters, observation), self.features(parameters, following)
        prediction = self._inverse(parameters, torch.cat([features, next_features], 2))
        if self._count is not None:
            action_vector = one_hot(action.long().unsqueeze(2), (self._count,))
            missed = F.cross_entropy(prediction.flatten(0, 1), action.long().flatten(), reduction="none")
            inverse = missed.view(action.shape)
        else:
            action_vector = action.flatten(2)
            inverse = torch.linalg.vector_norm(action_vector - prediction.tanh(), dim=2)
        if not self._joint:
            features, next_features = features.detach(), next_features.detach()
        expected = self._forward(parameters, torch.cat([features, action_vector], 2))
        return Losses(torch.linalg.vector_norm(next_features - expected, dim=2), inverse)
