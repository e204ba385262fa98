"""What an encoder declares, before anything heavy is imported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from guidebench.harness.interfaces import Observations

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


class Sizes(NamedTuple):
    """How large a learner wants its encoders."""

    channels: int
    """Width of embeddings and residual blocks of a grid."""
    features: int
    """Numbers by which a part that is learnt to be read is described."""


class Encoder(ABC):
    """Turns a part of an observation into features, by a network with parameters or without.

    It is registered by name, and a part may name it (`Observations.encoder`).
    """

    reading: ClassVar[str] = "what its author does not tell"
    """What it reads, in words, for the message about a part that nothing reads."""
    learns: ClassVar[bool] = True
    """Whether its network has parameters. Features of one without are as the observation has them, so that learners
    put hidden layers behind them."""

    @abstractmethod
    def reads(self, part: Observations) -> bool:
        """Whether it can read this part."""

    @abstractmethod
    def width(self, part: Observations, sizes: Sizes) -> int:
        """Features that it gives for this part."""

    @abstractmethod
    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        """Multiply-adds that its network takes for one observation, for `--dry-run`."""

    @abstractmethod
    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        """[S, B, *part.shape] in the part's dtype (half and double floats as float32) -> float32 [S, B, width]; the
        names of its parameters begin with `name`."""
