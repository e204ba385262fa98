"""The dueling network (Wang et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from guidebench.baselines.networks import MLP
from guidebench.baselines.parameters import Spec


class Dueling:
    """Q(s, a) = V(s) + A(s, a) − mean_a′ A(s, a′): features [S, B, width] -> Q-values [S, B, A] (Wang et al. 2016, eq.
    9)."""

    def __init__(self, value: MLP, advantage: MLP) -> None:
        self.value, self.advantage = value, advantage

    def specs(self) -> dict[str, Spec]:
        return {**self.value.specs(), **self.advantage.specs()}

    def __call__(self, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        advantage = self.advantage(parameters, inputs)
        return self.value(parameters, inputs) + advantage - advantage.mean(2, keepdim=True)
