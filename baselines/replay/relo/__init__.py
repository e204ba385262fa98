"""ReLo: transitions are prioritised by the loss of the online network beyond that of the target network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.harness.interfaces import Build, Difference, Sampler
from guidebench.harness.parts import ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds


@register.replay("relo")
@dataclass(frozen=True)
class Relo(ReplayPart):
    """Reducible loss prioritisation as configured in VLM-RB's baseline (Sujit et al. 2023; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("relo.bib")

    alpha: Annotated[float, Bounds(0, 1)] = 0.6
    """Exponent of the priority (VLM-RB, app. E)."""
    beta_start: Annotated[float, Bounds(0, 1)] = 0.4
    """Exponent of the importance weights at step 0 (VLM-RB, app. E)."""
    beta_end: Annotated[float, Bounds(0, 1)] = 1.0
    """Exponent of the importance weights at the end of the run, reached linearly (VLM-RB, app. E)."""
    importance_weights: bool = True
    """Whether the loss uses importance weights (VLM-RB, app. E)."""
    epsilon: Annotated[float, Bounds(1e-12)] = 1e-6
    """Constant added to the reducible loss, so that every transition can be drawn (VLM-RB, app. E)."""
    difference: Difference = "error"
    """How the reducible loss is computed. `error`: |δ| − |δ̄|, with the TD errors δ of the online and δ̄ of the target
    network (VLM-RB, app. E). `loss`: L(δ) − L(δ̄) with the learner's own loss L (Sujit et al. 2023; their released
    code)."""

    def spawn(self, build: Build) -> Sampler:
        from guidebench.baselines.replay.relo.sampler import ReloSampler

        return ReloSampler(self, build.rows, build.slots, build.steps)


register.method("relo")(
    Method(
        summary="the suite's default learner with replay prioritised by reducible loss",
        replay="relo",
        ablations={
            "epsilon=0.01": {"replay.epsilon": 1e-2},
            "difference=loss": {"replay.difference": "loss"},
            "importance_weights=false": {"replay.importance_weights": False},
        },
        citation=Relo.citation,
    )
)
