"""How networks read whole observations: each part by its encoder, with the features concatenated."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Observations

if TYPE_CHECKING:
    from guidebench.baselines.networks import Network


@dataclass(frozen=True)
class Reading:
    """How a learner encodes observations: the sizes of the encoders and their network; created by `read`."""

    observations: Observations
    sizes: Sizes
    learns: bool
    """Whether any part of the observation has an encoder with trainable parameters."""
    width: int
    """Total number of features of all parts."""
    multiplications: int
    """Multiply-adds to encode one observation."""

    def network(self) -> Network:
        """Return the network: observations [S, B, …], for records by name -> features float32 [S, B, width], parts in
        order."""
        from guidebench.baselines.networks import Joined

        if not self.observations.parts:
            return encoder_of(self.observations).network(self.observations, self.sizes, "encoder")
        named = self.observations.parts.items()
        return Joined({name: encoder_of(part).network(part, self.sizes, f"encoder.{name}") for name, part in named})

    def span(self, name: str) -> slice:
        """Return the slice of the features that encodes a named part."""
        widths = {part: encoder_of(space).width(space, self.sizes) for part, space in self.observations.parts.items()}
        before = sum(widths[part] for part in itertools.takewhile(lambda part: part != name, widths))
        return slice(before, before + widths[name])

    def widened(self, policy: Mapping[str, Array], parameters: Mapping[str, Array], *names: str) -> Mapping[str, Array]:
        """Convert the parameters `policy` of a network that does not read the parts `names`, or the last of them, to
        those of a network that does, whose present parameters are `parameters`. Names that observations lack are passed
        over. Layers that read the features get the weights 0 for the added features, so that both networks compute the
        same values."""
        present = [name for name in names if name in self.observations.parts]
        for first in range(len(present)):
            added = np.zeros(self.width, bool)
            for name in present[first:]:
                added[self.span(name)] = True

            def wider(key: str, weights: Array, added: Array = added) -> Array:
                shape = (self.width, *weights.shape[1:])
                if key not in parameters or parameters[key].shape != shape or len(weights) != (~added).sum():
                    return weights
                wide = np.zeros(shape, weights.dtype)
                wide[~added] = weights
                return wide

            policy = {key: wider(key, weights) for key, weights in policy.items()}
        return policy

    def encoder(self, hidden: Sequence[int]) -> Network | None:
        """Return the network whose output represents observations in comparisons: the features, or, if no encoder
        learns, a learner's `hidden` layers on top of them; None if there are no hidden layers either."""
        from guidebench.baselines.networks import MLP, Chain, Relu

        if self.learns:
            return self.network()
        if not hidden:
            return None
        return Chain(self.network(), MLP(self.width, hidden[:-1], hidden[-1], "encoder"), Relu())

    def encoder_width(self, hidden: Sequence[int]) -> int:
        """Return the number of features of `encoder`; 0 where it is None."""
        if self.learns:
            return self.width
        return hidden[-1] if hidden else 0


@registry.cached()
def read(observations: Observations, sizes: Sizes) -> Reading:
    """Return the reading of observations; cached, since planning needs it for every cell. UserError for observations
    that `unread` reports."""
    if problem := unread(observations):
        raise UserError(problem)
    parts = [(part, encoder_of(part)) for part in observations.parts.values() or (observations,)]
    return Reading(
        observations,
        sizes,
        any(encoder.learns for _, encoder in parts),
        sum(encoder.width(part, sizes) for part, encoder in parts),
        sum(encoder.multiplications(part, sizes) for part, encoder in parts),
    )


def encoder_of(part: Observations) -> Encoder:
    """Return the encoder that a part names, or else the first built-in one, by name, that reads it. A plug-in's encoder
    is used only if named, so that installing a package changes no run. UserError if there is none."""
    if part.encoder:
        named: Encoder = registry.get("encoder", part.encoder)()
        if not named.reads(part):
            raise UserError(f"its encoder {part.encoder!r} reads {named.reading}")
        return named
    if (builtin := _builtin_encoder(part)) is not None:
        return builtin
    encoders: dict[str, Encoder] = {name: registry.get("encoder", name)() for name in registry.names("encoder")}
    descriptions = "; ".join(f"{name}, {encoder.reading}" for name, encoder in encoders.items())
    others = [name for name, encoder in encoders.items() if encoder.reads(part)]
    mend = f"; name encoder={others[0]!r} in its Observations" if others else ""
    raise UserError(f"no encoder reads it{' unnamed' if others else ''} (known: {descriptions}){mend}")


@registry.cached()
def _builtin_encoder(part: Observations) -> Encoder | None:
    """Return the first built-in encoder that reads a part; cached like `read`."""
    ours = [name for name in registry.registered("encoder") if registry.home("encoder", name).startswith(OURS)]
    encoders: list[Encoder] = [registry.get("encoder", name)() for name in ours]
    return next((encoder for encoder in encoders if encoder.reads(part)), None)


OURS = __name__.removesuffix("reading")
"""Module prefix of the built-in encoders."""


def unread(observations: Observations) -> str:
    """Return which observations, or which part of them, no encoder reads, and why; "" if all are read."""
    for name, part in (observations.parts or {"": observations}).items():
        try:
            encoder_of(part)
        except UserError as error:
            subject = f"part {name!r} of the observations is" if name else "the observations are"
            return f"{subject} {part.dtype} of shape {part.shape}{' of codes' if part.categories else ''}: {error}"
    return ""
