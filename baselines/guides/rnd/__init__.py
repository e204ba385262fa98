"""Random network distillation: a bonus for observations that a trained network cannot predict (Burda et al. 2018).

The guide of the method `curiosity`, with the network sizes of ELLM's baseline, for any learner and observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.baselines.encoders import Sizes, read, unread
from guidebench.harness.interfaces import Build, Guide, Observations
from guidebench.harness.parts import AskingPart, CellView
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings


@register.guide("rnd")
@dataclass(frozen=True)
class Rnd(AskingPart):
    """Adds a bonus to the task's reward: the error of a network that learns to predict a fixed random network's output
    for the next observation."""

    weight: Annotated[float, Bounds(0)] = 0.5
    """Weight of the normalised bonus beside the task's reward (Burda et al. 2018, released code: coefficients 1 and 2
    of intrinsic and extrinsic reward; ELLM's code trains on the bonus alone, then on the task)."""
    lr: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of Adam on the predictor (Burda et al. 2018, released code; ELLM, released code)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (512, 512)
    """Widths of the hidden layers of predictor and target (ELLM, released code)."""
    out: Annotated[int, Bounds(1), Unit("numbers")] = 512
    """Dimension of the vectors that are predicted (Burda et al. 2018, released code; ELLM, released code)."""
    channels: Annotated[int, Bounds(1)] = 64
    """Width of the grid encoder's embeddings and residual blocks (choice: as the learners of action values)."""
    features: Annotated[int, Bounds(1)] = 512
    """Number of features of a grid or an image that predictor and target read (ELLM, released code)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 64
    """Transitions per seed in a gradient step of the predictor; there is one for each of the learner's (ELLM, released
    code, which takes the learner's batch)."""
    clip: Annotated[float, Bounds(0), Unit("standard deviations")] = 5.0
    """Largest absolute value of a normalised feature (Burda et al. 2018, §2.4)."""
    discount: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount of the bonus returns whose standard deviation normalises the bonus (Burda et al. 2018, released
    code)."""
    every: Annotated[int, Bounds(1), Unit("environment steps")] = 32
    """Environment steps between updates of the statistics that normalise features and bonus (choice: the paper has one
    per rollout, of 128 steps of many environments)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("rnd.bib")

    def __post_init__(self) -> None:
        check_settings(self, "guide")

    @property
    def cycle(self) -> int:
        return self.every

    def sizes(self) -> Sizes:
        """Return the sizes that it requests of its encoder."""
        return Sizes(self.channels, self.features)

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if self.every > view["training"].capacity:
            return (
                f"guide.every={self.every} is larger than training.capacity={view['training'].capacity}, so that "
                f"transitions would be lost before they are counted; lower guide.every"
            )
        return unread(view.observations)

    def multiplications(self, observations: Observations) -> int:
        """Return multiply-adds of the bonus of one observation."""
        from guidebench.baselines import arithmetic

        reading = read(observations, self.sizes())
        return reading.multiplications + 2 * arithmetic.mlp((reading.width, *self.hidden, self.out))

    def spawn(self, build: Build) -> Guide:
        from guidebench.baselines.guides.rnd.guide import RndGuide

        return RndGuide(self, build)


register.method("curiosity")(
    Method(
        summary="a bonus for what a network cannot yet predict of a random one (random network distillation)",
        guide="rnd",
        suite="crafter_ood",
        ablations={"weight=1": {"guide.weight": 1.0}, "weight=0.1": {"guide.weight": 0.1}},
        citation=Rnd.citation,
    )
)
