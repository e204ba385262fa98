"""Shared base of the learners of action values: settings here; acting, updates and checkpoints in `learner`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from guidebench.baselines.encoders import Reading, Sizes, read, unread
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import CellView, LearnerPart
from guidebench.harness.settings import Bounds, Unit, check_settings

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@dataclass(frozen=True)
class QLearning(LearnerPart):
    """Settings of table 3 of VLM-RB that DQN and IQN share, and the encoder that they share.

    A subclass adds `network`, `spawn`, and the multiply-adds from which its run time is estimated.
    """

    lr: Annotated[float, Bounds(0)] = 4e-5
    """Learning rate of Adam, with β = (0.9, 0.999) and ε = 1e-8 (VLM-RB, table 3)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 128
    """Transitions per seed in a gradient step (VLM-RB, table 3)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.95
    """Discount γ of future reward (VLM-RB, table 3)."""
    target_every: Annotated[int, Bounds(1), Unit("environment steps")] = 1000
    """Environment steps between updates of the target network (VLM-RB, table 3)."""
    target_rate: Annotated[float, Bounds(0, 1)] = 1.0
    """Weight τ of the online network when the target network is updated; 1 copies it (VLM-RB, table 3)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 500
    """Environment steps before the first gradient step (VLM-RB, table 3)."""
    train_every: Annotated[int, Bounds(1), Unit("environment steps")] = 4
    """Environment steps between updates (VLM-RB, table 3)."""
    gradient_steps: Annotated[int, Bounds(1)] = 1
    """Gradient steps per update (choice: the paper states only how often it trains)."""
    max_grad_norm: Annotated[float, Bounds(0)] = 1.0
    """Largest Euclidean norm of one seed's gradient; a larger gradient is rescaled to this norm (VLM-RB, table 3)."""
    epsilon_start: Annotated[float, Bounds(0, 1)] = 1.0
    """Probability ε of a uniformly random action at step 0 (VLM-RB, table 3)."""
    epsilon_end: Annotated[float, Bounds(0, 1)] = 0.05
    """Probability ε after annealing (VLM-RB, table 3)."""
    exploration_share: Annotated[float, Bounds(0, 1), Unit("share of the run's steps")] = 0.5
    """Share of the run's steps over which ε falls linearly (VLM-RB, table 3)."""
    double: bool = True
    """Whether the online network chooses the action that the target network evaluates (VLM-RB, table 3)."""
    channels: Annotated[int, Bounds(1)] = 64
    """Width of the grid encoder's embeddings and residual blocks (choice: the paper gives no width)."""
    features: Annotated[int, Bounds(1)] = 256
    """Number of features that the encoder of a grid or an image outputs (VLM-RB, app. E.1)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (256,)
    """Widths of the hidden layers between the features (or a vector observation) and the Q-values (choice: "a small
    MLP")."""

    groups: ClassVar[tuple[str, ...]] = ("q",)
    overhead_of_update: ClassVar[float] = 8e-4
    overhead_of_evaluation: ClassVar[float] = 3e-4
    """Seconds of fixed overhead per update and per evaluation, independent of layer widths."""

    def __post_init__(self) -> None:
        check_settings(self, "learner")
        if self.batch_size > self.learning_starts:
            raise UserError(
                f"learner.batch_size={self.batch_size} is larger than learner.learning_starts={self.learning_starts}: "
                f"the first batch would find too few transitions; set learner.learning_starts to at least "
                f"{self.batch_size} or learner.batch_size to at most {self.learning_starts}"
            )
        if self.epsilon_end > self.epsilon_start:
            raise UserError(
                f"learner.epsilon_end={self.epsilon_end:g} is larger than learner.epsilon_start="
                f"{self.epsilon_start:g}: exploration can only fall; lower epsilon_end or raise epsilon_start"
            )

    @property
    def cycle(self) -> int:
        return self.train_every

    def fits(self, view: CellView) -> str:
        """Return why this learner cannot learn in this cell, or ""."""
        if not view.actions.discrete:
            return f"it needs discrete actions, and these are vectors of shape {view.actions.shape}"
        mask = view.observations.masking
        if mask and view.observations.parts[mask].shape != (view.actions.count,):
            return (
                f"the observation part {mask!r} is a mask of shape {view.observations.parts[mask].shape} for "
                f"{view.actions.count} actions; give it one number per action"
            )
        return unread(view.observations)

    def reading(self, observations: Observations) -> Reading:
        """Return how the network reads observations."""
        return read(observations, Sizes(self.channels, self.features))

    def encoder(self, observations: Observations) -> Network | None:
        """Return the part of the network that turns observations into features; None for vectors without hidden
        layers."""
        return self.reading(observations).encoder(self.hidden)

    def encoder_width(self, observations: Observations) -> int:
        """Return the number of features of `encoder` for these observations; 0 where it is None."""
        return self.reading(observations).encoder_width(self.hidden)

    def network(self, observations: Observations, actions: Actions) -> Network:
        """Return the network for these spaces: observations [S, B, …] -> Q-values [S, B, A]."""
        raise NotImplementedError

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds to compute the Q-values of one observation."""
        raise NotImplementedError

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds of an update, per transition of its batch."""
        raise NotImplementedError

    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one training step of one seed on one CPU core: acting and its share of an
        update."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        update = self.batch_size * self.multiplications_to_learn(observations, actions) / MULTIPLICATIONS_PER_SECOND
        updates = (update + self.overhead_of_update) * self.gradient_steps / self.train_every
        return acting + self.overhead_of_evaluation + updates

    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one greedy action on one CPU core while ten episodes are evaluated
        together."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        return acting + self.overhead_of_evaluation / 10


MULTIPLICATIONS_PER_SECOND = 3.5e10
"""Measured by benchmarks/learner_update.py on one core of an AMD EPYC, as are the overheads."""
