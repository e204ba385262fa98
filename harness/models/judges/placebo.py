"""The judge `placebo`: judgements of other clips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from guidebench.harness.models.placebo import Placebo
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.judge("placebo")
@dataclass(frozen=True)
class PlaceboJudge(Placebo):
    """Gives each clip the judgement of another clip: as many are judged positive, and none for what it shows."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1024
    """Steps between a question and the use of its answer; null applies it on arrival, which is not reproducible
    (choice: as the other judges, so that only the answers differ)."""

    version: ClassVar[int] = 1
