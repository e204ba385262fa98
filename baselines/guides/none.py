"""No guide: the learner is trained on the environment's own reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from guidebench.baselines.guiding import BaseGuide
from guidebench.harness.interfaces import Build, Guide
from guidebench.harness.parts import AskingPart
from guidebench.harness.registry import register


@register.guide("none")
@dataclass(frozen=True)
class Unguided(AskingPart):
    """Adds nothing to transitions and leaves batches unchanged."""

    version: ClassVar[int] = 1
    several_stores: ClassVar[bool] = True
    citation: ClassVar[str] = "% it changes nothing"

    def spawn(self, build: Build) -> Guide:
        return BaseGuide()
