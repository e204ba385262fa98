"""Behaviour cloning: a policy fitted to the actions of stored transitions, for continuous actions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from guidebench.baselines.encoders import Reading, read
from guidebench.baselines.learners.actor_critic import MULTIPLICATIONS_PER_SECOND, SIZES, unfit_offline
from guidebench.harness.interfaces import Actions, Build, Learner, Observations
from guidebench.harness.parts import CellView, LearnerPart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings


@register.learner("bc")
@dataclass(frozen=True, kw_only=True)
class Bc(LearnerPart):
    """Behaviour cloning by the actor of SAC and TD3, which with its encoder is trained by this loss alone."""

    hidden: Annotated[tuple[int, ...], Bounds(1)] = (256, 256)
    """Widths of the policy's hidden layers (Fujimoto and Gu 2021, TD3+BC)."""
    lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of Adam (Fujimoto and Gu 2021, TD3+BC)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 256
    """Transitions per seed in a gradient step (Fujimoto and Gu 2021, TD3+BC)."""
    loss: Literal["mse", "nll"] = "mse"
    """`mse`: squared distance of a deterministic policy from the action. `nll`: −log π(a|s) of SAC's policy, a Gaussian
    with tanh (`mse`: the term of TD3+BC, Fujimoto and Gu 2021; `nll`: Cal-QL's code, TanhGaussianPolicy)."""
    log_std_min: Annotated[float, Bounds(-20, 2)] = -5.0
    """With `nll`: smallest log σ of the Gaussian (choice: B-Pref's bound, since σ of few demonstrations tends to 0)."""
    successes_only: bool = False
    """Whether only transitions of episodes with a success count in the loss (choice: all are imitated by default)."""
    max_grad_norm: Annotated[float | None, Bounds(0)] = None
    """Largest Euclidean norm of one seed's gradient; null disables this (choice: as Fujimoto and Gu 2021)."""
    learning_starts: Annotated[int, Bounds(1), Unit("environment steps")] = 1
    """First step of an online phase with a gradient step (choice: an offline phase has as many as it asks for)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("bc.bib")

    def __post_init__(self) -> None:
        check_settings(self, "learner")

    @property
    def learns_from(self) -> tuple[str, ...]:
        """Return `success` if only successful episodes are imitated."""
        return ("success",) if self.successes_only else ()

    def fits(self, view: CellView) -> str:
        """Return why this learner cannot learn in this cell, or ""."""
        return unfit_offline(view)

    def reading(self, observations: Observations) -> Reading:
        """Return how the policy reads observations."""
        return read(observations, SIZES)

    def encoder_width(self, observations: Observations) -> int:
        """Return the number of features of the encoder, or of the last hidden layer without one."""
        return self.reading(observations).encoder_width(self.hidden)

    def seconds_per_step(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one gradient step of one seed on one CPU core."""
        return 1e-3 + 3 * self.batch_size * self._multiplications(observations, actions) / MULTIPLICATIONS_PER_SECOND

    def seconds_per_action(self, observations: Observations, actions: Actions) -> float:
        """Return the rough cost in seconds of one action on one CPU core."""
        return 3e-5 + self._multiplications(observations, actions) / MULTIPLICATIONS_PER_SECOND

    def _multiplications(self, observations: Observations, actions: Actions) -> int:
        from guidebench.baselines import arithmetic

        reading = self.reading(observations)
        return reading.multiplications + arithmetic.mlp((reading.width, *self.hidden, 2 * actions.shape[0]))

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.bc.learner import BcLearner

        return BcLearner(self, build)
