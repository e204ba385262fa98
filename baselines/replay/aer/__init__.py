"""AER: of many candidates, replay those most similar to the current observation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.harness.interfaces import Build, Sampler
from guidebench.harness.parts import CellView, ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds


@register.replay("aer")
@dataclass(frozen=True)
class Aer(ReplayPart):
    """Attentive experience replay as configured in VLM-RB's baseline (Sun et al. 2020; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("aer.bib")

    lambda_start: Annotated[float, Bounds(1)] = 4.0
    """Candidates per transition of the batch at step 0, falling linearly to 1 over the run (VLM-RB, app. E)."""

    def fits(self, view: CellView) -> str:
        """Return why similarity cannot be computed with this learner on these observations, or ""."""
        learner = view["learner"]
        if not learner.encoder_width(view.observations):
            return (
                f"it compares observations by the learner's encoder, and {type(learner).__name__} has none for "
                f"vectors without a hidden layer: give learner.hidden at least one layer"
            )
        return ""

    def spawn(self, build: Build) -> Sampler:
        from guidebench.baselines.replay.aer.sampler import AerSampler

        return AerSampler(self, build)


register.method("aer")(
    Method(
        summary="the suite's default learner with replay of transitions that resemble the current observation",
        replay="aer",
        citation=Aer.citation,
    )
)
