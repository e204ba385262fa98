"""TD3: a deterministic actor, smoothed targets and an ensemble of critics, on a vector."""

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
    """How the target is made of the chosen target critics (VLM-RB, table 2, against app. E.1's "mean")."""
    actor_reduction: ActorReduction = "min"
    """How the actor's loss is made of all critics; `first` takes the first alone, as Fujimoto et al. do (VLM-RB,
    table 2, against app. E.1's "mean")."""
    policy_frequency: Annotated[int, Bounds(1), Unit("environment steps")] = 2
    """Environment steps from one on which the actor and the targets are updated to the next (VLM-RB, table 2; choice:
    of which)."""
    exploration_noise: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.1
    """Deviation of the noise on training actions (VLM-RB, table 2)."""
    target_noise: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.2
    """Deviation of the noise on the target's actions (VLM-RB, table 2)."""
    noise_clip: Annotated[float, Bounds(0), Unit("of an action's range [-1, 1]")] = 0.5
    """Largest noise on the target's actions (VLM-RB, table 2)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("td3.bib")

    def spawn(self, build: Build) -> Learner:
        from guidebench.baselines.learners.td3.learner import Td3Learner

        return Td3Learner(self, build)
