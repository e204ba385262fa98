"""Active pre-training: particle entropy of learnt features in place of the task's reward (Liu and Abbeel 2021).

The guide of the method `apt_exploration`, with the features and the normalisation of URLB's released code. The method
`apt` begins from the policies of `apt_exploration` and learns from the task's reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.baselines.encoders import Sizes, unread
from guidebench.harness.interfaces import Build, Guide
from guidebench.harness.parts import AskingPart, CellView
from guidebench.harness.recipes import Method
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Unit, check_settings, cite


@register.guide("apt")
@dataclass(frozen=True)
class Apt(AskingPart):
    """Rewards next observations whose learnt features are far from those of others: the logarithm of the mean distance
    to the k nearest, in place of the task's reward or beside it."""

    k: Annotated[int, Bounds(1), Unit("neighbours")] = 12
    """Number k of nearest neighbours, without the transition itself (URLB, released code, which counts the transition
    as its own nearest; ELLM's baseline)."""
    constant: Annotated[float, Bounds(1e-6)] = 1.0
    """Constant c that is added to the mean distance before the logarithm, which keeps the reward at 0 or above if it is
    1 (URLB, released code)."""
    task_weight: Annotated[float, Bounds(0)] = 0.0
    """Weight of the task's reward beside the entropy reward; 0 trains without the task's reward (Liu and Abbeel 2021,
    §3: pre-training without reward)."""
    sample: Annotated[int, Bounds(0), Unit("transitions")] = 0
    """Stored transitions per seed, drawn uniformly anew at each environment step that learns, among which neighbours
    are searched; 0 searches in the drawn batch, with all transitions of its n-step returns (URLB, released code: the
    batch)."""
    lr: Annotated[float, Bounds(0)] = 1e-4
    """Learning rate of Adam on the feature network and its two models (URLB, released code)."""
    hidden: Annotated[tuple[int, ...], Bounds(1)] = (1024,)
    """Widths of the hidden layers of the forward and the inverse model (URLB, released code)."""
    joint: bool = False
    """Whether the forward model's loss trains the feature network too, as in URLB's code, and not the inverse model's
    alone (choice: the forward loss draws features together until they tell nothing, as the page on apt measures)."""
    out: Annotated[int, Bounds(1), Unit("numbers")] = 512
    """Dimension of the features z among which distances are measured (URLB, released code)."""
    channels: Annotated[int, Bounds(1)] = 64
    """Width of the grid encoder's embeddings and residual blocks (choice: as the learners of action values)."""
    features: Annotated[int, Bounds(1)] = 512
    """Number of features of a grid or an image from which z is computed (choice: as the learners of action values)."""
    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 64
    """Transitions per seed in a gradient step of the feature network; there is one for each of the learner's (choice:
    as `rnd`; URLB's code takes the learner's batch, of 1,024)."""

    version: ClassVar[int] = 1
    citation: ClassVar[str | Path] = Path(__file__).with_name("apt.bib")

    def __post_init__(self) -> None:
        check_settings(self, "guide")

    def sizes(self) -> Sizes:
        """Return the sizes that it requests of its encoder."""
        return Sizes(self.channels, self.features)

    def fits(self, view: CellView) -> str:
        """Return why this guide cannot work in this cell, or ""."""
        if self.sample:
            where, count, capacity = "guide.sample", self.sample, view["training"].capacity
            if count > capacity:
                return (
                    f"guide.sample={count} is larger than training.capacity={capacity}, so that transitions would be "
                    f"drawn twice; lower guide.sample"
                )
        elif (learner := view["learner"]) is not None:
            where, count = "learner.batch_size", learner.batch_size
        else:
            return unread(view.observations)
        if self.k >= count:
            return (
                f"guide.k={self.k} neighbours are not to be found among {where}={count} transitions without the one "
                f"whose neighbours they are; set guide.k to at most {count - 1}, or guide.sample to more than "
                f"{self.k}"
            )
        return unread(view.observations)

    def spawn(self, build: Build) -> Guide:
        from guidebench.baselines.guides.apt.guide import AptGuide

        return AptGuide(self, build)


register.method("apt_exploration")(
    Method(
        summary="particle entropy of learnt features (APT) without the task's reward; meant as a pre-training stage",
        guide="apt",
        suite="crafter_ood",
        ablations={
            "k=3": {"guide.k": 3},
            "joint=on": {"guide.joint": True},
            "task_weight=1": {"guide.task_weight": 1.0},
        },
        citation=Apt.citation,
    )
)
register.method("apt")(
    Method(
        summary="a stage of apt_exploration, then the task's own reward (APT)",
        pretraining="apt_exploration",
        suite="crafter_ood",
        defaults={"learner.dueling_dqn.lr": cite(2e-5, "ELLM, released code: fine-tuning")},
        ablations={"pretraining=none": {"pretraining": "none"}, "k=3": {"pretraining.guide.k": 3}},
        citation=Apt.citation,
    )
)
