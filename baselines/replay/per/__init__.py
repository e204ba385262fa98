"""Prioritised experience replay: the draw probability is proportional to a power of the last TD error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from guidebench.harness.interfaces import Build, Sampler
from guidebench.harness.parts import ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite


@register.replay("per")
@dataclass(frozen=True)
class Per(ReplayPart):
    """Prioritised experience replay as configured in VLM-RB's baseline (Schaul et al. 2015; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("per.bib")

    alpha: Annotated[float, Bounds(0, 1)] = 0.7
    """Exponent of the priority: 0 draws uniformly, 1 in proportion to |TD error| (VLM-RB, tables 2 and 3)."""
    beta: Annotated[float, Bounds(0, 1)] = 1.0
    """Exponent of the importance weights; 1 fully corrects the bias of prioritised draws (VLM-RB, tables 2 and 3)."""
    importance_weights: bool = True
    """Whether the loss uses importance weights (VLM-RB, table 3; false in table 2)."""
    epsilon: Annotated[float, Bounds(1e-12)] = 1e-6
    """Constant added to |TD error|, so that every transition can be drawn (VLM-RB, app. E)."""
    new_priority: Literal["small", "maximum"] = "small"
    """|TD error| assumed for a new transition: `small_priority`, or the largest seen so far for its seed (VLM-RB, app.
    E.1: small; Schaul et al. 2015, algorithm 1: maximum)."""
    small_priority: Annotated[float, Bounds(0), Unit("|TD error|")] = 0.01
    """|TD error| assumed for a new transition under new_priority=small (choice: a hundredth of the largest reward;
    small compared with an error worth replaying, yet drawn soon)."""

    def spawn(self, build: Build) -> Sampler:
        from guidebench.baselines.replay.per.sampler import PerSampler

        return PerSampler(self, build.rows, build.slots)


register.method("per")(
    Method(
        summary="the suite's default learner with prioritised experience replay",
        replay="per",
        on_suite={"ogbench_scene": {"replay.importance_weights": cite(False, "VLM-RB, table 2")}},
        ablations={
            "importance_weights=false": {"replay.importance_weights": False},
            "new_priority=maximum": {"replay.new_priority": "maximum"},
        },
        citation=Per.citation,
    )
)
