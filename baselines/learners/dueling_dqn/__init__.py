"""Dueling DQN: double Q-learning with a dueling network and n-step returns, for any observation an encoder reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from guidebench.baselines.learners.q_learning import QLearning
from guidebench.harness.interfaces import Actions, Build, Learner, Observations
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@register.learner("dueling_dqn")
@dataclass(frozen=True)
class DuelingDqn(QLearning):
    """Double DQN with a dueling network and n-step returns, with the hyperparameters of ELLM for Crafter."""

    lr: Annotated[float, Bounds(0)] = 6.25e-5
    """Learning rate of Adam, with β = (0.9, 0.999) and ε = 1e-8 (ELLM, released code)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 64
    """Transitions per seed in a gradient step, each the first of an n-step return (ELLM, released code)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ of future reward (ELLM, released code)."""
    n_step: Annotated[int, Bounds(1), Unit("environment steps")] = 3
    """Environment steps n whose rewards are summed before the target network's value; fewer at an episode's end (ELLM,
    released code)."""
    target_every: Annotated[int, Bounds(1), Unit("environment steps")] = 8_000
    """Environment steps between updates of the target network (ELLM, released code)."""
    target_rate: Annotated[float, Bounds(0, 1)] = 1.0
    """Weight τ of the online network when the target network is updated; 1 copies it (ELLM, released code)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 5_000
    """Environment steps before the first gradient step (ELLM, released code)."""
    train_every: Annotated[int, Bounds(1), Unit("environment steps")] = 4
    """Environment steps between updates (ELLM, released code)."""
    max_grad_norm: Annotated[float, Bounds(0)] = 10.0
    """Largest Euclidean norm of one seed's gradient; a larger gradient is rescaled to this norm (choice: a bound that
    rarely acts; ELLM's code has none)."""
    epsilon_start: Annotated[float, Bounds(0, 1)] = 1.0
    """Probability ε of a uniformly random action at step 0 (ELLM, released code)."""
    epsilon_end: Annotated[float, Bounds(0, 1)] = 0.01
    """Probability ε after annealing (ELLM, released code)."""
    exploration_share: Annotated[float, Bounds(0, 1), Unit("share of the run's steps")] = 0.5
    """Share of the run's steps over which ε falls linearly (choice: ELLM's 1,000,000 steps are half of the 2,000,000
    for which DSADF trains)."""
    double: bool = True
    """Whether the online network chooses the action that the target network evaluates (ELLM, released code)."""
    features: Annotated[int, Bounds(1)] = 512
    """Number of features that the encoder of a grid or an image outputs (ELLM, released code)."""
    trunk: Annotated[tuple[int, ...], Bounds(1)] = (512,)
    """Widths of the layers between the features and both streams of the dueling network (ELLM, released code)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (512, 512)
    """Widths of the hidden layers of each of the two streams, value and advantage (ELLM, released code)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("dueling_dqn.bib")

    def encoder(self, observations: Observations) -> Network | None:
        """Return the part of the network before its two streams; None for vectors without a trunk."""
        return self.reading(observations).encoder(self.trunk)

    def encoder_width(self, observations: Observations) -> int:
        """Return the number of features of `encoder` for these observations; 0 where it is None."""
        return self.reading(observations).encoder_width(self.trunk)

    def network(self, observations: Observations, actions: Actions) -> Network:
        """Return the Q-network for these spaces."""
        from guidebench.baselines.learners.dueling_dqn.network import Dueling
        from guidebench.baselines.networks import MLP, Chain, Relu

        assert actions.count is not None
        reading = self.reading(observations)
        width = (reading.width, *self.trunk)[-1]
        trunk = (MLP(reading.width, self.trunk[:-1], width, "trunk"), Relu()) if self.trunk else ()
        streams = (MLP(width, self.hidden, count, name) for name, count in (("value", 1), ("advantage", actions.count)))
        return Chain(reading.network(), *trunk, Dueling(*streams))

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        from guidebench.baselines import arithmetic

        assert actions.count is not None
        reading = self.reading(observations)
        widths = (reading.width, *self.trunk)
        streams = (arithmetic.mlp((widths[-1], *self.hidden, count)) for count in (1, actions.count))
        return reading.multiplications + arithmetic.mlp(widths) + sum(streams)

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds per transition: three forward passes and one gradient, about five forward passes in
        all."""
        return 5 * self.multiplications_to_act(observations, actions)

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.dueling_dqn.learner import DuelingDqnLearner

        return DuelingDqnLearner(self, build)


register.method("sparse")(
    Method(
        summary="dueling DQN with three-step returns on the task's own reward, from uniform replay",
        learner="dueling_dqn",
        suite="crafter_ood",
        ablations={"n_step=1": {"learner.n_step": 1}, "double=false": {"learner.double": False}},
        citation=DuelingDqn.citation,
    )
)
