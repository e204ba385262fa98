"""How networks read whole observations: each part by its encoder, the features side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Observations

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@dataclass(frozen=True)
class Reading:
    """What a learner reads of observations, as numbers and as a network; `unread` says whether it can."""

    observations: Observations
    sizes: Sizes

    @property
    def learns(self) -> bool:
        """Whether the encoder of any part has parameters."""
        return any(encoder.learns for _, encoder in self._parts())

    @property
    def width(self) -> int:
        """Features of all parts together."""
        return sum(encoder.width(part, self.sizes) for part, encoder in self._parts())

    @property
    def multiplications(self) -> int:
        """Multiply-adds that encoding one observation takes."""
        return sum(encoder.multiplications(part, self.sizes) for part, encoder in self._parts())

    def network(self) -> Network:
        """Observations [S, B, …], of records by name -> features float32 [S, B, width], parts in their order."""
        from guidebench.baselines.networks import Joined

        if not self.observations.parts:
            return encoder_of(self.observations).network(self.observations, self.sizes, "encoder")
        named = self.observations.parts.items()
        return Joined({name: encoder_of(part).network(part, self.sizes, f"encoder.{name}") for name, part in named})

    def encoder(self, hidden: Sequence[int]) -> Network | None:
        """What describes observations to whoever compares them: the features, or where no encoder learns a learner's
        `hidden` layers on top of them, None without any."""
        from guidebench.baselines.networks import MLP, Chain, Relu

        if self.learns:
            return self.network()
        if not hidden:
            return None
        return Chain(self.network(), MLP(self.width, hidden[:-1], hidden[-1], "encoder"), Relu())

    def encoder_width(self, hidden: Sequence[int]) -> int:
        """Features that `encoder` gives; 0 where there is none."""
        if self.learns:
            return self.width
        return hidden[-1] if hidden else 0

    def _parts(self) -> Iterator[tuple[Observations, Encoder]]:
        for part in self.observations.parts.values() or (self.observations,):
            yield part, encoder_of(part)


def encoder_of(part: Observations) -> Encoder:
    """The encoder that a part names, or else the first of ours by name that reads it: one of a plug-in is taken only
    where it is named, so that installing a package changes no run. UserError if there is none."""
    if part.encoder:
        named: Encoder = registry.get("encoder", part.encoder)()
        if not named.reads(part):
            raise UserError(f"its encoder {part.encoder!r} reads {named.reading}")
        return named
    known: dict[str, Encoder] = {name: registry.get("encoder", name)() for name in registry.names("encoder")}
    for name, encoder in known.items():
        if registry.home("encoder", name).startswith(OURS) and encoder.reads(part):
            return encoder
    told = "; ".join(f"{name}, {encoder.reading}" for name, encoder in known.items())
    others = [name for name, encoder in known.items() if encoder.reads(part)]
    mend = f"; name encoder={others[0]!r} in its Observations" if others else ""
    raise UserError(f"no encoder reads it{' unnamed' if others else ''} (known: {told}){mend}")


OURS = __name__.removesuffix("reading")
"""Where the modules of our own encoders are."""


def unread(observations: Observations) -> str:
    """Which observations or part of them no encoder reads, and why, or ""."""
    for name, part in (observations.parts or {"": observations}).items():
        try:
            encoder_of(part)
        except UserError as error:
            told = f"part {name!r} of the observations is" if name else "the observations are"
            return f"{told} {part.dtype} of shape {part.shape}{' of codes' if part.categories else ''}: {error}"
    return ""
