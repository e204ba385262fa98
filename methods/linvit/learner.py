"""Action values regularised towards a prior policy: soft value, policy, and the n-step target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.learners.dueling_dqn.learner import DuelingDqnLearner
from guidebench.baselines.parameters import SeedBlock
from guidebench.baselines.tensors import ObservationTensors
from guidebench.harness.interfaces import Array
from guidebench.methods.linvit import PRIOR, PriorDqn


def tilted(values: Tensor, prior: Tensor, temperature: float) -> Tensor:
    """Return Q + λ log π of action values and prior probabilities [S, B, A]: −∞ where the prior is 0. A prior that is 0
    for all actions (the zeros of a batch that is not drawn yet) counts as uniform."""
    known = prior.sum(-1, keepdim=True) > 0
    return values + temperature * torch.where(known, prior, 1 / prior.shape[-1]).log()


def soft_value(scores: Tensor, temperature: float) -> Tensor:
    """Return V = λ log Σ_a π(a|s) exp(Q(s, a)/λ) of `tilted` values [..., A] (LINVIT's regularised value)."""
    return temperature * torch.logsumexp(scores / temperature, -1)


def policy(scores: Array, temperature: float) -> Array:
    """Return the probabilities of actions in proportion to π(a|s) exp(Q(s, a)/λ), float64 [A], of `tilted` values
    [A] (LINVIT's policy)."""
    above = (scores.astype(np.float64) - scores.max()) / temperature
    weights: Array = np.exp(above)
    return np.asarray(weights / weights.sum())


def drawn(chances: Array, number: float) -> int:
    """Return the action that a number in [0, 1) chooses by its probability in `chances`, float64 [A]."""
    reached = np.cumsum(chances)
    return int(np.searchsorted(reached, number * reached[-1], side="right"))


class PriorDqnLearner(DuelingDqnLearner):
    """Dueling DQN towards y = Σ_{k<m} γ^k·r_{t+k} + γ^m(1 − terminated)·V̄(s_{t+m}), V̄ the soft value of the target
    network. In training it draws actions from the prior with probability ε, else from the policy; in evaluation it
    takes the policy's most probable action.
    """

    config: PriorDqn

    def following(self, online: SeedBlock, target: SeedBlock, seen: ObservationTensors) -> tuple[Tensor, Tensor]:
        """Return the target network's soft value of the next observations, [S, B], twice: no other takes its place in
        comparisons of losses."""
        assert not isinstance(seen, Tensor)
        scores = tilted(self.admitted(self.network(target.views, seen), seen), seen[PRIOR], self.config.temperature)
        value = soft_value(scores, self.config.temperature)
        return value, value

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions int64 [n] for observations [n, …] of the seed rows `rows`: drawn with the generators `explore`
        [S], or the most probable ones if None. Two numbers are drawn for each observation from its seed's generator."""
        if explore is None:
            return self._greedy(observation, rows)
        numbers = np.array([explore[row].random(2) for row in rows.tolist()])
        led = numbers[:, 0] < self.epsilon(step)
        chances = observation[PRIOR].astype(np.float64)
        if not led.all():
            scores = self._values(observation[~led], rows[~led])
            chances[~led] = [policy(each, self.config.temperature) for each in scores]
        return np.array([drawn(each, number) for each, number in zip(chances, numbers[:, 1].tolist(), strict=True)])

    def value(self, observation: Array, rows: Array) -> Array:
        """Return the soft values of observations [n, …] of the seed rows `rows` [n], float32 [n]."""
        scores = torch.from_numpy(self._values(observation, rows))
        return np.asarray(soft_value(scores, self.config.temperature).numpy())

    def _values(self, observation: Array, rows: Array) -> Array:
        """Return Q + λ log π [n, A], whose maximum is at the policy's most probable action; −∞ for actions that may not
        be taken."""

        def values(block: int, seen: ObservationTensors) -> Tensor:
            assert not isinstance(seen, Tensor)
            found = self.admitted(self.network(self.online.blocks[block].views, seen), seen)
            return tilted(found, seen[PRIOR], self.config.temperature)

        return self.online.evaluate(values, observation, rows)
