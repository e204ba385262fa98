"""DQN: Q-learning with a target network and ε-greedy exploration, for any observation an encoder reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from guidebench.baselines.learners.q_learning import QLearning
from guidebench.harness.interfaces import Actions, Build, Learner, Observations
from guidebench.harness.registry import register

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@register.learner("dqn")
@dataclass(frozen=True)
class Dqn(QLearning):
    """Double DQN with the hyperparameters of VLM-RB for MiniGrid."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("dqn.bib")

    def network(self, observations: Observations, actions: Actions) -> Network:
        """Return the Q-network for these spaces."""
        from guidebench.baselines.networks import MLP, Chain

        assert actions.count is not None
        reading = self.reading(observations)
        return Chain(reading.network(), MLP(reading.width, self.hidden, actions.count, "head"))

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        from guidebench.baselines import arithmetic

        assert actions.count is not None
        reading = self.reading(observations)
        return reading.multiplications + arithmetic.mlp((reading.width, *self.hidden, actions.count))

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds per transition: three forward passes and one gradient, about five forward passes in
        all."""
        return 5 * self.multiplications_to_act(observations, actions)

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.dqn.learner import DqnLearner

        return DqnLearner(self, build)
