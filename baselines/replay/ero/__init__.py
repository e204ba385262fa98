"""ERO: a small network learns from evaluation returns which transitions to replay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.harness.interfaces import Build, Sampler
from guidebench.harness.parts import CellView, ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, cite


@register.replay("ero")
@dataclass(frozen=True)
class Ero(ReplayPart):
    """Experience replay optimization as configured in VLM-RB's baseline (Zha et al. 2019; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("ero.bib")

    candidates: Annotated[int, Bounds(1), Unit("batches")] = 4
    """Uniformly drawn candidates per transition of the batch (VLM-RB, app. E: N_cand = 4B)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (64, 64)
    """Widths of the replay policy's hidden layers (VLM-RB, app. E)."""
    lr: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of the replay policy's Adam (choice: the paper states none)."""
    new_error: Annotated[float, Bounds(0), Unit("|TD error|")] = 1.0
    """|TD error| assumed for a new transition (VLM-RB, app. E)."""
    averaging: Annotated[float, Bounds(0, 1)] = 0.5
    """Weight of the newest evaluation in the moving average of returns (choice: the paper states none; 0.5 spans about
    the hundred episodes of Zha et al. at 32 episodes per evaluation)."""

    def fits(self, view: CellView) -> str:
        """Return why the replay policy could not learn in this cell, or ""."""
        every, steps = view["evaluation"].every, view["training"].steps
        if 2 * every < steps:
            return ""
        return (
            f"it learns from the change between evaluations, and evaluation.every={every} leaves fewer than two before "
            f"the end of training.steps={steps}; lower evaluation.every to less than {steps / 2:g}"
        )

    def spawn(self, build: Build) -> Sampler:
        from guidebench.baselines.replay.ero.sampler import EroSampler

        return EroSampler(self, build)


SMOKE = {
    "bin_sorting": 50, "crafter": 100, "crafter_ood": 100, "housekeep": 100, "metaworld": 200, "metaworld_mt10": 200,
    "metaworld_pbrl": 200,
}  # fmt: skip
"""Suite whose profile `smoke` has too few evaluations to learn from -> steps between them."""

register.method("ero")(
    Method(
        summary="the suite's default learner with a replay policy learnt from evaluation returns",
        replay="ero",
        on_profile={
            suite: {"smoke": {"evaluation.every": cite(every, "smoke profile: it learns from changes between three")}}
            for suite, every in SMOKE.items()
        },
        citation=Ero.citation,
    )
)
