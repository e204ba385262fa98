"""TD3: a deterministic actor, smoothed target actions and an ensemble of critics, for continuous actions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.baselines.learners.actor_critic import ActorCritic, ActorReduction, Reduction
from guidebench.harness.interfaces import Build, Learner
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.learner("td3")
@dataclass(frozen=True)
class Td3(ActorCritic):
    """Twin delayed deterministic policy gradient with the hyperparameters of VLM-RB for OGBench."""

    actor_lr: Annotated[float, Bounds(0)] = 3e-4
    layer_norm: bool = False
    target_reduction: Reduction = "min"
    """How the chosen target critics are reduced to one target value (VLM-RB, table 2, against app. E.1's "mean")."""
    actor_reduction: ActorReduction = "min"
    """How all critics are reduced to the value in the actor's loss; `first` uses the first critic alone, as Fujimoto et
    al. do (VLM-RB, table 2, against app. E.1's "mean")."""
    policy_frequency: Annotated[int, Bounds(1), Unit("environment steps")] = 2
    """Environment steps between updates of the actor and the target networks (VLM-RB, table 2; choice: counted in
    environment steps)."""
    exploration_noise: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.1
    """Standard deviation of the exploration noise added to training actions (VLM-RB, table 2)."""
    target_noise: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.2
    """Standard deviation of the smoothing noise added to target actions (VLM-RB, table 2)."""
    noise_clip: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.5
    """Bound to which the noise on target actions is clipped (VLM-RB, table 2)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("td3.bib")

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.td3.learner import Td3Learner

        return Td3Learner(self, build)
