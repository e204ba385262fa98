"""Implicit quantile networks of S seeds at once (Dabney et al. 2018, §3)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from guidebench.baselines.networks import MLP, Network, linear, linear_specs
from guidebench.baselines.parameters import Spec
from guidebench.baselines.tensors import ObservationTensors


class QuantileNetwork:
    """Z_τ(s, ·) = head(ψ(s) ⊙ φ(τ)): an encoder ψ, and φ as wide as its features.

    Called like any network, it returns Q-values: means over the `policy` fractions (k + ½)/K, the midpoints of K equal
    parts of [0, 1] [choice: the paper draws them], so that they are a function of the observation.
    """

    def __init__(self, encoder: Network, width: int, cosines: int, head: MLP, policy: int) -> None:
        self.encoder, self.width, self.cosines, self.head, self.policy = encoder, width, cosines, head, policy

    def specs(self) -> dict[str, Spec]:
        return {**self.encoder.specs(), **linear_specs("quantile", self.cosines, self.width), **self.head.specs()}

    def embedding(self, parameters: Mapping[str, Tensor], fractions: Tensor) -> Tensor:
        """φ_j(τ) = relu(Σ_i cos(πiτ)·w_ij + b_j), i from 0: τ [S, B, N] -> [S, B, N, width] (Dabney et al., eq. 4)."""
        frequencies = math.pi * torch.arange(self.cosines, device=fractions.device)
        cosines = (fractions.unsqueeze(3) * frequencies).cos().flatten(1, 2)
        result = linear(cosines, parameters["quantile.weight"], parameters["quantile.bias"]).relu_()
        return result.view(*fractions.shape, self.width)

    def quantiles(self, parameters: Mapping[str, Tensor], inputs: ObservationTensors, fractions: Tensor) -> Tensor:
        """Return the quantiles [S, B, N, A] of observations [S, B, …] at fractions τ [S, B, N], or [S, 1, N] for the
        whole batch.

        The N quantiles of all transitions are computed as rows of one matrix product.
        """
        features = self.encoder(parameters, inputs).unsqueeze(2)
        mixed = features * self.embedding(parameters, fractions)
        return self.head(parameters, mixed.flatten(1, 2)).view(*mixed.shape[:3], -1)

    def __call__(self, parameters: Mapping[str, Tensor], inputs: ObservationTensors) -> Tensor:
        weight = parameters["quantile.weight"]
        middles = (torch.arange(self.policy, device=weight.device) + 0.5) / self.policy
        return self.quantiles(parameters, inputs, middles.expand(len(weight), 1, -1)).mean(2)
