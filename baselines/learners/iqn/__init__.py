"""IQN: learns the return distribution as a quantile function, for discrete actions and any observation an encoder
reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from guidebench.baselines.learners.q_learning import QLearning
from guidebench.harness.interfaces import Actions, Build, Learner, Observations
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.learners.iqn.network import QuantileNetwork


@register.learner("iqn")
@dataclass(frozen=True)
class Iqn(QLearning):
    """Implicit quantile network with the hyperparameters of VLM-RB for MiniGrid."""

    policy_quantiles: Annotated[int, Bounds(1)] = 32
    """Quantiles averaged into a Q-value when an action is chosen (VLM-RB, table 3)."""
    train_quantiles: Annotated[int, Bounds(1)] = 64
    """Quantiles of Z(s, a) in the loss, sampled for each transition (VLM-RB, table 3)."""
    target_quantiles: Annotated[int, Bounds(1)] = 64
    """Quantiles of the target distribution in the loss, sampled for each transition (VLM-RB, table 3)."""
    cosines: Annotated[int, Bounds(1)] = 64
    """Cosine functions that embed a quantile fraction τ (VLM-RB, table 3)."""
    kappa: Annotated[float, Bounds(1e-6), Unit("reward")] = 1.0
    """Threshold κ beyond which the quantile Huber loss is linear (VLM-RB, table 3)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (256,)
    """Widths of the hidden layers. On a grid or an image they lie between the product of features and embedding and the
    quantiles; on a vector, before that product. [] on a vector multiplies the observation itself (choice: "a small
    MLP", as for DQN)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("iqn.bib")

    def network(self, observations: Observations, actions: Actions) -> QuantileNetwork:
        """Return the quantile network for these spaces."""
        from guidebench.baselines.learners.iqn.network import QuantileNetwork
        from guidebench.baselines.networks import MLP

        assert actions.count is not None
        width, *hidden = self._head(observations)
        encoder = self.encoder(observations) or self.reading(observations).network()
        head = MLP(width, hidden, actions.count, "head")
        return QuantileNetwork(encoder, width, self.cosines, head, self.policy_quantiles)

    def _head(self, observations: Observations) -> tuple[int, ...]:
        """Return the layer widths from the features to the last hidden layer."""
        reading = self.reading(observations)
        widths = (reading.width, *self.hidden)
        return widths if reading.learns else widths[-1:]

    def _multiplications(self, observations: Observations, actions: Actions) -> tuple[int, int, int]:
        """Return multiply-adds of the encoder, of the embedding of one fraction, and of the head for one quantile of
        every action."""
        from guidebench.baselines import arithmetic

        assert actions.count is not None
        head = self._head(observations)
        reading = self.reading(observations)
        hidden = 0 if reading.learns else arithmetic.mlp((reading.width, *self.hidden))
        encoder = reading.multiplications + hidden
        return encoder, self.cosines * head[0], arithmetic.mlp((*head, actions.count))

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        encoder, embedding, quantile = self._multiplications(observations, actions)
        return encoder + self.policy_quantiles * (embedding + quantile)

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds per transition of an update: three forward passes and one gradient. A gradient costs two
        forward passes, and one for the embedding, whose fractions need no gradient. Policy fractions are embedded once
        for the whole batch."""
        encoder, embedding, quantile = self._multiplications(observations, actions)
        train, target = self.train_quantiles, self.target_quantiles
        return 5 * encoder + (2 * train + target) * embedding + (3 * train + target + self.policy_quantiles) * quantile

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.iqn.learner import IqnLearner

        return IqnLearner(self, build)
