"""The embedder `placebo`: vectors of other frames and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from guidebench.harness.models.placebo import Placebo
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit


@register.embedder("placebo")
@dataclass(frozen=True)
class PlaceboEmbedder(Placebo):
    """Gives each call the answer to another call of its kind and size: vectors of other frames and texts, masks and
    tracks of other images."""

    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 0
    """Steps between a question and the use of its answer; with 0 training waits for every answer; null applies it on
    arrival, which is not reproducible (choice: as the other embedders, so that only the answers differ)."""

    version: ClassVar[int] = 1
