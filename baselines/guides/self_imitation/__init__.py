"""Self-imitation: a learner of action values also learns from what its own past episodes returned (Oh et al. 2018).

The guide of the method `self_imitation`, for learners with action values and any agent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from guidebench.harness.interfaces import Build, Guide
from guidebench.harness.parts import AskingPart, CellView
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings


@register.guide("self_imitation")
@dataclass(frozen=True)
class SelfImitation(AskingPart):
    """Raises Q(s, a) to the returns that followed it in the seed's own episodes, where these are higher; the reward is
    the task's."""

    weight: Annotated[float, Bounds(0)] = 0.01
    """Weight of the loss, the paper's β of the value loss (Oh et al. 2018, released code)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 512
    """Transitions per seed in a gradient step (Oh et al. 2018, released code)."""
    updates: Annotated[int, Bounds(1), Unit("gradient steps")] = 4
    """Gradient steps M of a round (Oh et al. 2018, released code)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 80
    """Environment steps between rounds (Oh et al. 2018, released code: a round per update of A2C, which takes 5 steps
    of 16 environments)."""
    capacity: Annotated[int, Bounds(1), Unit("transitions")] = 100_000
    """Newest transitions of successful episodes that are kept (Oh et al. 2018, released code)."""
    starts: Annotated[int, Bounds(1), Unit("transitions")] = 101
    """Kept transitions from which on a seed imitates (Oh et al. 2018, released code: more than 100)."""
    alpha: Annotated[float, Bounds(0, 1)] = 0.6
    """Exponent of the priority (R − Q)₊ (Oh et al. 2018, released code)."""
    beta: Annotated[float, Bounds(0, 1)] = 0.1
    """Exponent of the importance weights; 0 for none (Oh et al. 2018, released code)."""
    epsilon: Annotated[float, Bounds(1e-12)] = 1e-6
    """Constant added to (R − Q)₊, so that every transition can be drawn (Oh et al. 2018, released code: the least)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("self_imitation.bib")

    def __post_init__(self) -> None:
        check_settings(self, "guide")

    @property
    def cycle(self) -> int:
        return self.every

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        learner = view["learner"]
        if learner is not None and "q" not in learner.groups:
            return (
                "it raises action values, which its learner does not have; choose a learner such as dqn or dueling_dqn"
            )
        return ""

    def stored_bytes(self, parts: Any, task: str) -> int:
        """Return the bytes per transition of the replay that the guide's own store takes."""
        observations = parts["agent"].observes(*parts["suite"].spaces(task))
        each = observations.parts.values() or (observations,)
        own = sum(math.prod(part.shape) * part.numpy.itemsize // part.stack for part in each)
        return int(own * (1 + self.capacity / parts["training"].capacity))

    def spawn(self, build: Build) -> Guide:
        from guidebench.baselines.guides.self_imitation.guide import SelfImitationGuide

        return SelfImitationGuide(self, build)


register.method("self_imitation")(
    Method(
        summary="action values raised to the returns of the seed's own rewarded episodes (self-imitation learning)",
        guide="self_imitation",
        suite="crafter_ood",
        ablations={"weight=1": {"guide.weight": 1.0}, "alpha=0": {"guide.alpha": 0.0, "guide.beta": 0.0}},
        citation=SelfImitation.citation,
    )
)
