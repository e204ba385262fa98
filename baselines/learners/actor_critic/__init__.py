"""What SAC and TD3 have in common: settings here, acting, updates and checkpoints in `learner`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from guidebench.baselines.encoders import Reading, Sizes, read, unread
from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.parts import LearnerPart, There
from guidebench.harness.settings import Bounds, Unit

if TYPE_CHECKING:
    from guidebench.baselines.networks import MLP, Network

SIZES = Sizes(channels=64, features=50)
"""Of the encoder that actor and critics share: 50 features, as Yarats et al. (2021, app. B) have them [choice: also of
grids, whose blocks are as wide as the default of DQN]."""
Reduction = Literal["min", "mean"]
ActorReduction = Literal["min", "mean", "first"]


@dataclass(frozen=True, kw_only=True)
class ActorCritic(LearnerPart):
    """The part of table 2 of VLM-RB that SAC and TD3 share: an actor, and an ensemble of critics.

    Parts of an observation whose encoder learns (grids, images) are encoded for actor and critics together, as in
    SAC-AE and DrQ (Yarats et al. 2021). That encoder is trained by the critics' loss alone, by an Adam of `critic_lr`
    and up to a gradient of `max_grad_norm`, its own; the actor sees its features without gradient, and target networks
    see those of a target encoder, which is moved as the target critics are.

    A learner adds values where the two differ (fields without one here), what it has alone, `spawn`, and how many
    numbers the actor gives for each of an action's (`outputs`).
    """

    hidden: Annotated[tuple[int, ...], Bounds(1)] = (512, 512, 512)
    """Widths of the hidden layers of the actor and of every critic (VLM-RB, table 2)."""
    actor_lr: Annotated[float, Bounds(0)]
    """Learning rate of the actor's Adam (VLM-RB, table 2)."""
    critic_lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of the critics' Adam, whose β and ε are (0.9, 0.999) and 1e-8 (VLM-RB, table 2)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 256
    """Transitions per seed in a gradient step (VLM-RB, table 2)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ of future reward (VLM-RB, table 2)."""
    target_rate: Annotated[float, Bounds(0, 1)] = 0.005
    """Share τ of the online network that a target network takes on when it is moved (VLM-RB, table 2)."""
    target_frequency: Annotated[int, Bounds(1), Unit("gradient updates")] = 1
    """Updates from one after which the target networks are moved to the next; TD3 counts the actor's (choice: 1, as
    Haarnoja et al. 2018 and Fujimoto et al. 2018 move them)."""
    max_grad_norm: Annotated[float | None, Bounds(0)] = 10.0
    """Largest Euclidean norm of one seed's gradient, for actor and ensemble each; a longer one is scaled to it, null
    leaves it (VLM-RB, table 2)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 10_000
    """First step after which gradient steps are taken; until then actions are uniformly random (VLM-RB, table 2)."""
    ensemble: Annotated[int, Bounds(1), Unit("critics")] = 10
    """Critics N (VLM-RB, table 2)."""
    subset: Annotated[int, Bounds(1), Unit("critics")] = 2
    """Target critics M of which an update's target is made, drawn anew for each (VLM-RB, table 2)."""
    utd: Annotated[int, Bounds(1), Unit("critic updates per environment step")] = 4
    """Critic updates after each environment step (VLM-RB, table 2)."""
    actor_utd: Annotated[int, Bounds(1), Unit("actor updates per environment step")] = 2
    """Of a step's critic updates, evenly spaced, so many are followed by one of the actor (VLM-RB, table 2; choice:
    which)."""
    initialisation: Literal["uniform", "orthogonal"] = "uniform"
    """How the linear layers of actor and critics start: weights and biases uniform in ±1/sqrt(inputs), as PyTorch has
    it (choice: VLM-RB tells none), or orthogonal weights and biases of 0 (B-Pref's code, utils.weight_init)."""
    layer_norm: bool
    """Hidden layers of the critics are normalised (VLM-RB, table 2; choice: before their ReLU)."""
    target_reduction: Reduction
    """How the target is made of the chosen target critics (VLM-RB, table 2)."""
    actor_reduction: ActorReduction
    """How the actor's loss is made of all critics; `first` takes the first alone (VLM-RB, table 2)."""
    policy_frequency: Annotated[int, Bounds(1), Unit("environment steps")]
    """Environment steps from one on which the actor is updated to the next (VLM-RB, table 2; choice: of which)."""

    overhead_of_update: ClassVar[float] = 1.5e-3
    overhead_of_action: ClassVar[float] = 3e-4
    """Seconds that an update's and an action's many small operations take whatever the widths."""
    outputs: ClassVar[int] = 1
    resets: ClassVar[tuple[str, ...]] = ("critic",)
    """The parts that its learner's `reset` can begin anew."""
    groups: ClassVar[tuple[str, ...]] = ("actor", "critic")

    def __post_init__(self) -> None:
        config: type = type(self)
        for name, field in settings.fields(config).items():
            settings.check(field, getattr(self, name), f"learner.{name}")
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

    def fits(self, there: There) -> str:
        """Why this learner cannot learn there, or ""."""
        if there.actions.discrete:
            return f"it needs continuous actions, and these are {there.actions.count} discrete ones"
        if len(there.actions.shape) != 1:
            return f"it needs actions that are a vector, and these have shape {there.actions.shape}"
        return unread(there.observations)

    def reading(self, observations: Observations) -> Reading:
        """How actor and critics read observations."""
        return read(observations, SIZES)

    def actor(self, observations: Observations, actions: Actions) -> MLP:
        """Features [S, B, D] -> [S, B, outputs · A]."""
        from guidebench.baselines.networks import MLP

        width = self.reading(observations).width
        return MLP(width, self.hidden, self.outputs * actions.shape[0], "actor", orthogonal=self._orthogonal)

    def critic(self, observations: Observations, actions: Actions) -> MLP:
        """Features and actions [S, B, D + A] -> Q-values [S, B, 1]."""
        from guidebench.baselines.networks import MLP

        width = self.reading(observations).width + actions.shape[0]
        return MLP(width, self.hidden, 1, "critic", self.layer_norm, orthogonal=self._orthogonal)

    @property
    def _orthogonal(self) -> bool:
        return self.initialisation == "orthogonal"

    def encoder(self, observations: Observations) -> Network | None:
        """The shared encoder, or on vectors the actor's hidden layers; None without any."""
        return self.reading(observations).encoder(self.hidden)

    def encoder_width(self, observations: Observations) -> int:
        """Features that `encoder` gives; 0 where there is none."""
        return self.reading(observations).encoder_width(self.hidden)

    def multiplications_to_act(self, observations: Observations, actions: Actions) -> int:
        """Multiply-adds of one action."""
        from guidebench.baselines import arithmetic

        reading = self.reading(observations)
        return reading.multiplications + arithmetic.mlp((reading.width, *self.hidden, self.outputs * actions.shape[0]))

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> float:
        """Multiply-adds of an update, per transition of its batch: an evaluation of the actor and of M critics and a
        gradient of N, and on the actor's share of updates its gradient through N. A gradient by parameters takes three
        evaluations' arithmetic, one by inputs two. An encoder takes a gradient, two evaluations of what follows, and
        one for the actor."""
        from guidebench.baselines import arithmetic

        reading = self.reading(observations)
        actor = self.multiplications_to_act(observations, actions) - reading.multiplications
        critic = arithmetic.mlp((reading.width + actions.shape[0], *self.hidden, 1))
        share = self.actor_utd / self.utd / self.policy_frequency
        acting = share * (3 * actor + 2 * self.ensemble * critic)
        return actor + (self.subset + 3 * self.ensemble) * critic + acting + (5 + share) * reading.multiplications

    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Rough cost of one training step of one seed on one CPU core: acting, and its updates."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        update = self.batch_size * self.multiplications_to_learn(observations, actions) / MULTIPLICATIONS_PER_SECOND
        return acting + self.overhead_of_action + self.utd * (update + self.overhead_of_update)

    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Rough cost of one greedy action on one CPU core while ten episodes are evaluated together."""
        acting = self.multiplications_to_act(observations, actions) / MULTIPLICATIONS_PER_SECOND
        return acting + self.overhead_of_action / 10


MULTIPLICATIONS_PER_SECOND = 3.5e10
"""On one core of an AMD EPYC, as are the overheads."""
