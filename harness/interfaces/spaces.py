"""Spaces of observations and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from guidebench.harness.types import Array


@dataclass(frozen=True)
class Observations:
    """The observation space of a task: one array, or a record of named parts, each an array in its own dtype.

    `Observations((17,), "float32")` is an array of 17 floats. With `Observations(parts={"grid": …, "text": …})`, each
    part an `Observations` of its own, an observation is a NumPy record: a task returns `np.zeros((), space.numpy)` with
    its fields filled, observations of several seeds are an array [S] of records, and `observation["text"]` of them is
    [S, …] in that part's shape and dtype.
    """

    shape: tuple[int, ...] = ()
    """Shape of one observation; () for a record, which is one item of `numpy`."""
    dtype: str = ""
    """Dtype of the numbers; "" for a record."""
    categories: tuple[int, ...] | None = None
    """Number of codes in each entry of the last axis if observations are categorical codes, else None."""
    stack: int = 1
    """Number of frames stacked on the last axis of an image, oldest first. They shift by one frame per step, so that a
    store keeps each frame once; the task decides the stack of an episode's first observation."""
    encoder: str = ""
    """Registered encoder that networks read it with; "" selects the one of `baselines/encoders/` that fits."""
    mask: bool = False
    """Whether this part of a record says of each discrete action, in order, whether it may be taken: nonzero if it may,
    shape (count,). Learners of action values then choose among those alone; networks read it as any other part."""
    parts: Mapping[str, Observations] = field(default_factory=dict, hash=False)
    """Name -> part of a record; parts cannot be nested."""

    def __post_init__(self) -> None:
        if self.parts:
            array_fields = (
                self.shape,
                self.dtype,
                self.categories is not None,
                self.stack != 1,
                self.encoder,
                self.mask,
            )
            if any(array_fields):
                raise ValueError("a record of named parts has no shape, dtype, stack, encoder or mask of its own")
            if nested := [name for name, part in self.parts.items() if part.parts]:
                raise ValueError(
                    f"part {nested[0]!r} of an observation has parts of its own; declare all parts at one level"
                )
            masks = [name for name, part in self.parts.items() if part.mask]
            if len(masks) > 1:
                raise ValueError(f"parts {masks[0]!r} and {masks[1]!r} are both masks of the actions; declare one")
        elif not self.dtype:
            raise ValueError("observations need a dtype, or named parts")
        elif self.mask and len(self.shape) != 1:
            raise ValueError(f"a mask of the actions has shape (count,), and this one has {self.shape}")
        elif self.stack != 1 and (self.stack < 1 or not self.shape or self.shape[-1] % self.stack):
            raise ValueError(
                f"observations of shape {self.shape} cannot hold stack={self.stack} frames: the last axis must be a "
                f"multiple of {self.stack}"
            )

    @property
    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy dtype of one observation: a structured dtype for a record, else the dtype of its numbers."""
        if not self.parts:
            return np.dtype(self.dtype)
        return np.dtype([(name, part.dtype, part.shape) for name, part in self.parts.items()])

    @property
    def masking(self) -> str:
        """Return the name of the part that is a mask of the actions, or ""."""
        return next((name for name, part in self.parts.items() if part.mask), "")

    def joined(self, **parts: Observations) -> Observations:
        """Return these observations with further named parts; a single array becomes the part `observation`."""
        return Observations(parts={**(self.parts or {"observation": self}), **parts})

    def join(self, observation: Array, **parts: Array) -> Array:
        """Return records of this space, which `joined` made, from observations [n, …] of the space before it and the
        added parts [n, …]."""
        names = observation.dtype.names
        held = {"observation": observation} if names is None else {name: observation[name] for name in names}
        records = np.empty(len(observation), self.numpy)
        for name, values in {**held, **parts}.items():
            records[name] = values
        return records


@dataclass(frozen=True)
class Actions:
    """The action space of a task: one of `count` choices, or a vector of `shape` in [-1, 1]."""

    count: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def discrete(self) -> bool:
        return self.count is not None
