"""Shared base of SAC and TD3: settings here; acting, updates and checkpoints in `learner`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.baselines.encoders import Reading, Sizes, read, unread
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import CellView, LearnerPart
from guidebench.harness.settings import Bounds, Unit, check_settings

if TYPE_CHECKING:
    from guidebench.baselines.networks import MLP, Network

SIZES = Sizes(channels=64, features=50)
"""Sizes of the encoder that actor and critics share: 50 features, as Yarats et al. (2021, app. B) have them [choice:
also for grids, whose residual blocks are as wide as DQN's default]."""
Reduction = Literal["min", "mean"]
ActorReduction = Literal["min", "mean", "first"]


@dataclass(frozen=True, kw_only=True)
class ActorCritic(LearnerPart):
    """Settings of table 2 of VLM-RB that SAC and TD3 share: an actor, and an ensemble of critics.

    Parts of an observation whose encoder learns (grids, images) are encoded once for actor and critics, as in SAC-AE
    and DrQ (Yarats et al. 2021). That encoder is trained by the critics' loss alone, with its own Adam of rate
    `critic_lr` and its own gradient bound `max_grad_norm`. The actor reads its features without gradient. Target
    networks read the features of a target encoder, which is updated as the target critics are.

    A subclass sets the fields without a default here, adds its own fields and `spawn`, and states how many numbers the
    actor outputs per action dimension (`outputs`).
    """

    hidden: Annotated[tuple[int, ...], Bounds(1)] = (512, 512, 512)
    """Widths of the hidden layers of the actor and of every critic (VLM-RB, table 2)."""
    actor_lr: Annotated[float, Bounds(0)]
    """Learning rate of the actor's Adam (VLM-RB, table 2)."""
    critic_lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of the critics' Adam, with β = (0.9, 0.999) and ε = 1e-8 (VLM-RB, table 2)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 256
    """Transitions per seed in a gradient step (VLM-RB, table 2)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ of future reward (VLM-RB, table 2)."""
    target_rate: Annotated[float, Bounds(0, 1)] = 0.005
    """Weight τ of the online network when a target network is updated (VLM-RB, table 2)."""
    target_frequency: Annotated[int, Bounds(1), Unit("gradient updates")] = 1
    """Gradient updates between updates of the target networks; TD3 counts only updates that include the actor (choice:
    1, as in Haarnoja et al. 2018 and Fujimoto et al. 2018)."""
    max_grad_norm: Annotated[float | None, Bounds(0)] = 10.0
    """Largest Euclidean norm of one seed's gradient, for actor and ensemble separately; a larger gradient is rescaled
    to this norm; null disables this (VLM-RB, table 2)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """Environment steps before the first gradient step; until then actions are uniformly random (VLM-RB, table 2)."""
    ensemble: Annotated[int, Bounds(1), Unit("critics")] = 10
    """Number of critics N (VLM-RB, table 2)."""
    subset: Annotated[int, Bounds(1), Unit("critics")] = 2
    """Number of target critics M, drawn anew for each update, that form its target (VLM-RB, table 2)."""
    utd: Annotated[int, Bounds(1), Unit("critic updates per environment step")] = 4
    """Critic updates after each environment step (VLM-RB, table 2)."""
    actor_utd: Annotated[int, Bounds(1), Unit("actor updates per environment step")] = 2
    """Actor updates per environment step, spaced evenly among the critic updates (VLM-RB, table 2; choice: the
    spacing)."""
    initialisation: Literal["uniform", "orthogonal", "lecun"] = "uniform"
    """Initialisation of the linear layers of actor and critics. `uniform`: weights and biases uniform in
    ±1/sqrt(inputs), PyTorch's default (choice: VLM-RB does not state it). `orthogonal`: orthogonal weights, biases of 0
    (B-Pref's code, utils.weight_init). `lecun`: weights normal with variance 1/inputs, truncated at two deviations,
    biases 0 (Flax's default, which FuRL's code keeps)."""
    layer_norm: bool
    """Whether the critics' hidden layers use layer normalisation (VLM-RB, table 2; choice: before their ReLU)."""
    target_reduction: Reduction
    """How the chosen target critics are reduced to one target value (VLM-RB, table 2)."""
    actor_reduction: ActorReduction
    """How all critics are reduced to the value in the actor's loss; `first` uses the first critic alone (VLM-RB, table
    2)."""
    policy_frequency: Annotated[int, Bounds(1), Unit("environment steps")]
    """Environment steps between actor updates (VLM-RB, table 2; choice: counted in environment steps)."""

    overhead_of_update: ClassVar[float] = 1.5e-3
    overhead_of_action: ClassVar[float] = 3e-4
    """Seconds of fixed overhead per update and per action, independent of layer widths."""
    outputs: ClassVar[int] = 1
    resets: ClassVar[tuple[str, ...]] = ("critic",)
    """Parts of the networks that the learner's `reset` can reinitialise."""
    groups: ClassVar[tuple[str, ...]] = ("actor", "critic")

    def __post_init__(self) -> None:
        check_settings(self, "learner")
        if self.subset > self.ensemble:
            raise UserError(
                f"learner.subset={self.subset} critics cannot be drawn from learner.ensemble={self.ensemble}; lower "
                f"learner.subset to at most {self.ensemble} or raise learner.ensemble"
            )
        if self.actor_utd > self.utd:
            raise UserError(
                f"learner.actor_utd={self.actor_utd} is larger than learner.utd={self.utd}: the actor is updated after "
                f"some of the critics' updates; lower learner.actor_utd or raise learner.utd"
            )
        if self.batch_size > self.learning_starts:
            raise UserError(
                f"learner.batch_size={self.batch_size} is larger than learner.learning_starts={self.learning_starts}: "
                f"the first batch would find too few transitions; set learner.learning_starts to at least "
                f"{self.batch_size} or learner.batch_size to at most {self.learning_starts}"
            )

    @property
    def cycle(self) -> int:
        return self.policy_frequency

    def fits(self, view: CellView) -> str:
        """Return why this learner cannot learn in this cell, or ""."""
        return unfit(view)

    def reading(self, observations: Observations) -> Reading:
        """Return how actor and critics read observations."""
        return read(observations, SIZES)

    def actor(self, observations: Observations, actions: Actions) -> MLP:
        """Return the actor: features [S, B, D] -> [S, B, outputs · A]."""
        from guidebench.baselines.networks import MLP

        width = self.reading(observations).width
        return MLP(width, self.hidden, self.outputs * actions.shape[0], "actor", initialisation=self.initialisation)

    def critic(self, observations: Observations, actions: Actions) -> MLP:
        """Return the critic: features and actions [S, B, D + A] -> Q-values [S, B, 1]."""
        from guidebench.baselines.networks import MLP

        width = self.reading(observations).width + actions.shape[0]
        return MLP(width, self.hidden, 1, "critic", self.layer_norm, initialisation=self.initialisation)

    def encoder(self, observations: Observations) -> Network | None:
        """Return the shared encoder, or for vectors the actor's hidden layers; None without any."""
        return self.reading(observations).encoder(self.hidden)

    def encoder_width(self, observations: Observations) -> int:
        """Return the number of features of `encoder`; 0 where it is None."""
        return self.reading(observations).encoder_width(self.hidden)

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        """Return multiply-adds to compute one action."""
        from guidebench.baselines import arithmetic

        reading = self.reading(observations)
        return reading.multiplications + arithmetic.mlp((reading.width, *self.hidden, self.outputs * actions.shape[0]))

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> float:
        """Return multiply-adds of an update, per transition of its batch.

        Critics: a forward pass of the actor and of M target critics, and a gradient of N critics. Actor, on its share
        of updates: its gradient through N critics. A gradient with respect to parameters costs three forward passes,
        one with respect to inputs two. An encoder costs one gradient and two forward passes of next observations, and
        one forward pass for the actor.
        """
        from guidebench.baselines import arithmetic

        reading = self.reading(observations)
        actor = self.multiplications_to_act(observations, actions) - reading.multiplications
        critic = arithmetic.mlp((reading.width + actions.shape[0], *self.hidden, 1))
        share = self.actor_utd / self.utd / self.policy_frequency
        acting = share * (3 * actor + 2 * self.ensemble * critic)
        return actor + (self.subset + 3 * self.ensemble) * critic + acting + (5 + share) * reading.multiplications

    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one training step of one seed on one CPU core: acting and its updates."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        update = self.batch_size * self.multiplications_to_learn(observations, actions) / MULTIPLICATIONS_PER_SECOND
        return acting + self.overhead_of_action + self.utd * (update + self.overhead_of_update)

    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one greedy action on one CPU core while ten episodes are evaluated
        together."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        return acting + self.overhead_of_action / 10


def unfit(view: CellView) -> str:
    """Return why a policy of vector actions cannot act in this cell, or ""."""
    if view.actions.discrete:
        return f"it needs continuous actions, and these are {view.actions.count} discrete ones"
    if len(view.actions.shape) != 1:
        return f"it needs actions that are a vector, and these have shape {view.actions.shape}"
    return unread(view.observations)


def unfit_offline(view: CellView) -> str:
    """Return why a learner of vector actions from a dataset cannot learn in this cell, or ""."""
    if reason := unfit(view):
        return reason
    if view["agent"] is None or "dataset" not in view["agent"].needs.values():
        return "it needs an agent with a dataset; choose agent=offline_online"
    return ""


MULTIPLICATIONS_PER_SECOND = 3.5e10
"""Measured on one core of an AMD EPYC, as are the overheads."""
