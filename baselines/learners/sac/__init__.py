"""SAC: a stochastic actor with an entropy bonus and an ensemble of critics, for continuous actions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from guidebench.baselines.learners.actor_critic import ActorCritic, ActorReduction, Reduction
from guidebench.harness.interfaces import Build, Learner
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.learner("sac")
@dataclass(frozen=True)
class Sac(ActorCritic):
    """Soft actor-critic with the hyperparameters of VLM-RB for OGBench."""

    actor_lr: Annotated[float, Bounds(0)] = 1e-3
    layer_norm: bool = True
    target_reduction: Reduction = "mean"
    actor_reduction: ActorReduction = "mean"
    policy_frequency: Annotated[int, Bounds(1), Unit("environment steps")] = 1
    log_std: Literal["clamp", "tanh", "softplus"] = "clamp"
    """How the actor's output x becomes log σ of the actions before their tanh, within [m, 2] with m = `log_std_min`.
    `clamp`: x clamped (Haarnoja et al.'s code, with m = −20; choice: VLM-RB does not state it). `tanh`: m + (2 −
    m)(tanh x + 1)/2 (B-Pref's code, with m = −5, so that σ starts at about .22). `softplus`: σ = log(1 + e^x) + .001,
    without the bound of 2 (FuRL's code, so that σ starts at about .69)."""
    log_std_min: Annotated[float, Bounds(-20, 2)] = -20.0
    """Smallest log σ (choice: VLM-RB gives none; B-Pref's and RL-SaLLM-F's code have −5)."""
    alpha: Annotated[float, Bounds(1e-12), Unit("reward per nat")] = 1.0
    """Entropy coefficient α; the initial value if α is tuned (VLM-RB, table 2)."""
    tune_alpha: bool = True
    """Whether α is learnt so that the actor's entropy meets its target (VLM-RB, table 2)."""
    alpha_lr: Annotated[float, Bounds(0)] = 3e-4
    """Learning rate of Adam on log α (VLM-RB, table 2)."""
    target_entropy_scale: Annotated[float, Bounds(0), Unit("nats per action dimension")] = 0.5
    """The target entropy is minus this value times the number of action dimensions (VLM-RB, table 2)."""

    outputs: ClassVar[int] = 2
    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("sac.bib")

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.sac.learner import SacLearner

        return SacLearner(self, build)


register.method("sac")(
    Method(
        summary="soft actor-critic on the task's own reward",
        learner="sac",
        ablations={"reward=sparse": {"suite.reward": "sparse"}},
        citation=Sac.citation,
    )
)
