"""DQN: Q-learning with a target network and ε-greedy exploration, on all that encoders read."""

from __future__ import annotations

from dataclasses import dataclass
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
    citation: ClassVar[str] = """@article{mnih2015human,
  title = {Human-Level Control through Deep Reinforcement Learning},
  author = {Mnih, Volodymyr and Kavukcuoglu, Koray and Silver, David and Rusu, Andrei A. and Veness, Joel and
    Bellemare, Marc G. and Graves, Alex and Riedmiller, Martin and Fidjeland, Andreas K. and Ostrovski, Georg and
    Petersen, Stig and Beattie, Charles and Sadik, Amir and Antonoglou, Ioannis and King, Helen and
    Kumaran, Dharshan and Wierstra, Daan and Legg, Shane and Hassabis, Demis},
  journal = {Nature},
  volume = {518},
  number = {7540},
  pages = {529--533},
  year = {2015}
}
@inproceedings{vanhasselt2016double,
  title = {Deep Reinforcement Learning with Double {Q}-Learning},
  author = {van Hasselt, Hado and Guez, Arthur and Silver, David},
  booktitle = {AAAI Conference on Artificial Intelligence},
  volume = {30},
  year = {2016}
}"""

    def network(self, observations: Observations, actions: Actions) -> Network:
        """The Q-network that these spaces need."""
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
        """Three evaluations and one gradient, about five evaluations' arithmetic in all."""
        return 5 * self.multiplications_to_act(observations, actions)

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.dqn.learner import DqnLearner

        return DqnLearner(self, build)
