"""The interface of encoders, which imports nothing heavy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from guidebench.harness.interfaces import Observations

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


class Sizes(NamedTuple):
    """Sizes that a learner requests of its encoders."""

    channels: int
    """Width of a grid encoder's embeddings and residual blocks."""
    features: int
    """Number of features of a part whose encoder learns."""


class Encoder(ABC):
    """Turns a part of an observation into features, by a network with or without parameters.

    It is registered by name, and a part of an observation may name it (`Observations.encoder`).
    """

    reading: ClassVar[str] = "what its author does not tell"
    """What it reads, in words, for the error message about a part that no encoder reads."""
    learns: ClassVar[bool] = True
    """Whether its network has parameters. An encoder without parameters passes the observation on unlearnt, so that
    learners add hidden layers behind it."""

    @abstractmethod
    def reads(self, part: Observations) -> bool:
        """Return whether this encoder can read a part of an observation."""

    @abstractmethod
    def width(self, part: Observations, sizes: Sizes) -> int:
        """Return the number of features that this encoder outputs for a part of an observation."""

    @abstractmethod
    def multiplications(self, part: Observations, sizes: Sizes) -> int:
        """Return multiply-adds of its network for one observation, for `--dry-run`."""

    @abstractmethod
    def network(self, part: Observations, sizes: Sizes, name: str) -> Network:
        """Return the network: [S, B, *part.shape] in the part's dtype (half and double floats as float32) -> float32
        [S, B, width]. The names of its parameters begin with `name`."""
