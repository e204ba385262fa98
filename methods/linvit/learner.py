"""Action values regularised towards a prior policy: soft value, policy, and the n-step target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from guidebench.baselines.learners.dueling_dqn.learner import DuelingDqnLearner
from guidebench.baselines.parameters import SeedBlock
from guidebench.baselines.tensors import ObservationTensors
from guidebench.harness.interfaces import Array
from guidebench.methods.linvit import MOVED, PRIOR, PriorDqn


def tilted(values: Tensor, prior: Tensor, temperature: float) -> Tensor:
    """Return Q + λ log π of action values and prior probabilities [S, B, A]: −∞ where the prior is 0. A prior that is 0
    for all actions (the zeros of a batch that is not drawn yet) counts as uniform."""
    has_prior = prior.sum(-1, keepdim=True) > 0
    return values + temperature * torch.where(has_prior, prior, 1 / prior.shape[-1]).log()


def soft_value(scores: Tensor, temperature: float) -> Tensor:
    """Return V = λ log Σ_a π(a|s) exp(Q(s, a)/λ) of `tilted` values [..., A] (LINVIT's regularised value)."""
    return temperature * torch.logsumexp(scores / temperature, -1)


def policy(scores: Array, temperature: float) -> Array:
    """Return the policy, probabilities of actions in proportion to π(a|s) exp(Q(s, a)/λ), float64 [A], for `tilted`
    values [A] (LINVIT's policy)."""
    above = (scores.astype(np.float64) - scores.max()) / temperature
    weights: Array = np.exp(above)
    return np.asarray(weights / weights.sum())


def drawn(chances: Array, number: float) -> int:
    """Return the action drawn with the probabilities `chances`, float64 [A], by a uniform `number` in [0, 1)."""
    reached = np.cumsum(chances)
    return int(np.searchsorted(reached, number * reached[-1], side="right"))


class PriorDqnLearner(DuelingDqnLearner):
    """Dueling DQN towards y = Σ_{k<m} γ^k·r_{t+k} + γ^m(1 − terminated)·V̄(s_{t+m}), V̄ the soft value of the target
    network. In training it draws actions from the prior with probability ε, else from the policy; in evaluation it
    takes the policy's most probable action.
    """

    config: PriorDqn

    def following(self, online: SeedBlock, target: SeedBlock, observation: ObservationTensors) -> tuple[Tensor, Tensor]:
        """Return the target network's soft value of the next observations, [S, B], twice: as the value in the target y,
        and as the value for comparisons of losses, which has no other form here."""
        assert not isinstance(observation, Tensor)
        q_values = self.admitted(self.network(target.views, observation), observation)
        scores = tilted(q_values, observation[PRIOR], self.config.temperature)
        value = soft_value(scores, self.config.temperature)
        return value, value

    @torch.no_grad()
    def measures(self, q_values: Tensor, observation: ObservationTensors) -> Mapping[str, Tensor]:
        """Return the policy's `entropy` in nats, and `prior/moved`, the total variation of the policy from that of a
        uniform prior in [0, 1]: the share of its probability that the prior moves. Both are means over the batch."""
        assert not isinstance(observation, Tensor)
        admitted, temperature = self.admitted(q_values, observation), self.config.temperature
        chances = torch.softmax(tilted(admitted, observation[PRIOR], temperature) / temperature, -1)
        moved = chances - torch.softmax(admitted / temperature, -1)
        entropy = torch.special.entr(chances)
        return {"entropy": entropy.sum(2).mean(1), MOVED: moved.abs().sum(2).mean(1) / 2}

    def act(self, observation: Array, rows: Array, explore: Sequence[np.random.Generator] | None, step: int) -> Array:
        """Return actions int64 [n] for observations [n, …] of the seed rows `rows`: drawn with the generators `explore`
        [S], or the most probable ones if None. Two numbers are drawn for each observation from its seed's generator."""
        if explore is None:
            return self._greedy(observation, rows)
        numbers = np.array([explore[row].random(2) for row in rows.tolist()])
        from_prior = numbers[:, 0] < self.epsilon(step)
        chances = observation[PRIOR].astype(np.float64)
        if not from_prior.all():
            scores = self._values(observation[~from_prior], rows[~from_prior])
            chances[~from_prior] = [policy(row_scores, self.config.temperature) for row_scores in scores]
        draws = numbers[:, 1].tolist()
        return np.array([drawn(row_chances, draw) for row_chances, draw in zip(chances, draws, strict=True)])

    def value(self, observation: Array, rows: Array) -> Array:
        """Return the soft values of observations [n, …] of the seed rows `rows` [n], float32 [n]."""
        scores = torch.from_numpy(self._values(observation, rows))
        return np.asarray(soft_value(scores, self.config.temperature).numpy())

    def _values(self, observation: Array, rows: Array) -> Array:
        """Return Q + λ log π [n, A], whose maximum is at the policy's most probable action; −∞ for actions that may not
        be taken."""

        def values(block: int, inputs: ObservationTensors) -> Tensor:
            assert not isinstance(inputs, Tensor)
            q_values = self.admitted(self.network(self.online.blocks[block].views, inputs), inputs)
            return tilted(q_values, inputs[PRIOR], self.config.temperature)

        return self.online.evaluate(values, observation, rows)
