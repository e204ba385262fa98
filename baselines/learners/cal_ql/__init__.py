"""Cal-QL: SAC with a conservative term for its critics, calibrated by the returns that were seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from guidebench.baselines.learners.actor_critic import ActorReduction, Reduction, unfit_offline
from guidebench.baselines.learners.sac import Sac
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Build, Learner, Observations
from guidebench.harness.parts import CellView
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Later, Unit

Tail = Literal["nothing", "last_reward"]


@register.learner("cal_ql")
@dataclass(frozen=True)
class CalQl(Sac):
    """Calibrated Q-learning (Nakamoto et al. 2023) with the settings of its released code, which KAGI keeps."""

    hidden: Annotated[tuple[int, ...], Bounds(1)] = (256, 256)
    """Widths of the hidden layers of the actor and of every critic (Cal-QL's code, policy_arch and qf_arch)."""
    actor_lr: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of the actor's Adam (Cal-QL's code, policy_lr)."""
    critic_lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of the critics' Adam, and of an encoder's (Cal-QL's code, qf_lr)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 256
    """Transitions per seed in a gradient step (Cal-QL's code)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ of future reward (Cal-QL's code)."""
    target_rate: Annotated[float, Bounds(0, 1)] = 0.005
    """Weight τ of the online network when a target network is updated (Cal-QL's code, soft_target_update_rate)."""
    max_grad_norm: Annotated[float | None, Bounds(0)] = None
    """Largest Euclidean norm of one seed's gradient, for actor and critics separately; null disables this (Cal-QL's
    code)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 256
    """Steps of a run, those of its offline phase included, until which it acts uniformly at random and, outside of that
    phase, takes no gradient step (choice: a batch)."""
    ensemble: Annotated[int, Bounds(1), Unit("critics")] = 2
    """Number of critics N (Cal-QL's code)."""
    utd: Annotated[int, Bounds(1), Unit("critic updates per environment step")] = 1
    """Critic updates after each environment step of the online phase (Cal-QL's code, online_utd_ratio)."""
    actor_utd: Annotated[int, Bounds(1), Unit("actor updates per environment step")] = 1
    """Actor updates per environment step (Cal-QL's code: one per critic update)."""
    initialisation: Literal["uniform", "orthogonal"] = "orthogonal"
    """Initialisation of the linear layers: `uniform` in ±1/sqrt(inputs), or `orthogonal` with biases of 0 (Cal-QL's
    code, orthogonal_init)."""
    layer_norm: bool = False
    """Whether the critics' hidden layers use layer normalisation (Cal-QL's code)."""
    target_reduction: Reduction = "min"
    """How the target critics are reduced to one value, before the largest over actions is taken (Cal-QL's code)."""
    actor_reduction: ActorReduction = "min"
    """How all critics are reduced to the value in the actor's loss (Cal-QL's code)."""
    alpha_lr: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of Adam on log α (Cal-QL's code: the policy's)."""
    target_entropy_scale: Annotated[float, Bounds(0), Unit("nats per action dimension")] = 1.0
    """The target entropy is minus this value times the number of action dimensions (Cal-QL's code)."""
    cql_weight: Annotated[float, Bounds(0)] = 5.0
    """Weight of the conservative term in the critics' loss; 0 leaves the term out (Cal-QL's code, cql_min_q_weight)."""
    cql_actions: Annotated[int, Bounds(1), Unit("actions")] = 10
    """Actions K of each kind in the conservative term, and of the target's maximum (Cal-QL's code, cql_n_actions)."""
    calibrated: bool = True
    """Whether the values of the policy's actions in the conservative term are bounded below by Monte-Carlo returns;
    without, this is CQL (Nakamoto et al. 2023, eq. 5.1; Cal-QL's code, enable_calql)."""
    max_backup: bool = True
    """Whether the target takes the largest value of K actions in s′, or that of one (Cal-QL's code,
    cql_max_target_backup)."""
    reward_scale: Annotated[float, Bounds(0)] = 1.0
    """Factor of every reward (Cal-QL's code, reward_scale: 10 on AntMaze and Adroit)."""
    reward_bias: float = 0.0
    """Added to every scaled reward (Cal-QL's code, reward_bias: −5 on AntMaze, 5 on Adroit)."""
    tail: Tail = "nothing"
    """What follows in the return of an episode that a time limit ended: `nothing`, or its `last_reward` in every step,
    r/(1 − γ) (Cal-QL's code: the latter on Kitchen, and in failed episodes of sparse tasks; choice: `nothing`, a lower
    bound where no reward is negative)."""

    bc_weight: Annotated[float, Bounds(0), Later] = 0.0
    """Weight w of cloning in the actor's loss, in multiples of the mean |Q| of a batch; 0 leaves the term out (choice:
    0, since Cal-QL's code has none and KAGI names none; its citation [60] clones)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("cal_ql.bib")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tail == "last_reward" and self.discount == 1:
            raise UserError(
                "learner.tail=last_reward sums the last reward for ever, which is not finite with learner.discount=1; "
                "set learner.discount below 1 or learner.tail=nothing"
            )

    def fits(self, view: CellView) -> str:
        """Return why this learner cannot learn in this cell, or ""."""
        return unfit_offline(view)

    def multiplications_to_learn(self, observations: Observations, actions: Actions) -> float:
        """Return the multiply-adds of one update per transition of its batch: those of SAC, plus a gradient of N
        critics for 3K actions, with K target values instead of one from each of M critics."""
        from guidebench.baselines import arithmetic

        critic = arithmetic.mlp((self.reading(observations).width + actions.shape[0], *self.hidden, 1))
        further = (9 * self.ensemble * (self.cql_weight > 0) + self.subset * self.max_backup) * self.cql_actions
        return super().multiplications_to_learn(observations, actions) + further * critic

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.cal_ql.learner import CalQlLearner

        return CalQlLearner(self, build)
