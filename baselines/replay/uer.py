"""Uniform experience replay: every stored transition is drawn with the same probability."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from guidebench.baselines.sampling import BaseSampler
from guidebench.harness.interfaces import Build, Draw, Moment, Sampler
from guidebench.harness.parts import ReplayPart
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register


@register.replay("uer")
@dataclass(frozen=True)
class Uer(ReplayPart):
    """Uniform experience replay (Lin 1992; VLM-RB, app. E)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("uer.bib")

    def spawn(self, build: Build) -> Sampler:
        return UerSampler()


register.method("uer")(
    Method(
        summary="the suite's default learner with uniform experience replay",
        replay="uer",
        citation=Uer.citation,
    )
)


class UerSampler(BaseSampler):
    """Draws with replacement, each of the N live transitions with probability 1/N."""

    def draw(self, count: int, moment: Moment) -> Draw:
        """Return slots int64 [S, B], without weights."""
        live = moment.live
        return Draw(live.slots(np.stack([rng.integers(live.count, size=count) for rng in moment.rngs])), None)
