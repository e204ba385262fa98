"""Stacks of frames in a store: an observation contains the last k frames, and each frame is stored once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, Observations

Layout = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype."""


class Frames:
    """Converts observations to what a store keeps: for parts that are stacks, only the newest frame."""

    def __init__(self, observations: Observations) -> None:
        self._stacks = {
            name: part for name, part in (observations.parts or {"": observations}).items() if part.stack > 1
        }
        self.most = max((part.stack for part in self._stacks.values()), default=1)
        """Length of the longest stack, in frames."""
        self.layout: Layout = observations.shape, observations.numpy
        """Shape and dtype of an observation."""
        parts = [(name, part.dtype, _frame(part)) for name, part in observations.parts.items()]
        self.newest: Layout = ((), np.dtype(parts)) if parts else (_frame(observations), observations.numpy)
        """Shape and dtype of what is stored per observation."""

    def __bool__(self) -> bool:
        """Return whether any part is a stack."""
        return bool(self._stacks)

    def of(self, observation: Array) -> Array:
        """Return the parts of observations [...] that a store keeps: the newest frame of each stack, and other parts
        unchanged."""
        if not self._stacks:
            return observation
        frames = np.empty(observation.shape[: observation.ndim - len(self.layout[0])] + self.newest[0], self.newest[1])
        for _, into, part in _parts(frames, observation):
            into[...] = part[..., part.shape[-1] - into.shape[-1] :] if into.shape != part.shape else part
        return frames

    def moved(self, observation: Array, newest: Array) -> Array:
        """Return the observations that follow `observation` [S, B], given their stored newest frames `newest` [S,
        B]."""
        if not self._stacks:
            return newest
        following = np.empty_like(observation)
        for name, into, before, last in _parts(following, observation, newest):
            into[...] = np.concatenate([before[..., last.shape[-1] :], last], -1) if name in self._stacks else last
        return following

    def fill(self, observations: Array, newest: Array, opening: Array, earlier: Array, since: Array) -> None:
        """Write the observations at slots `earlier` [B, 0] of one seed into `observations` [B].

        `newest` [slots] are the stored frames. `opening` [slots] are whole observations at which a stack starts anew.
        `earlier` [B, k] holds each slot and those before it. `since` [B] is the number of steps since the stack started
        anew.
        """
        for name, into, frames, stacks in _parts(observations, newest, opening):
            if name not in self._stacks:
                into[...] = frames[earlier[:, 0]]
                continue
            count, depth = self._stacks[name].stack, frames.shape[-1]
            for back in range(count):
                at = (count - 1 - back) * depth
                into[..., at : at + depth] = frames[earlier[:, back]]
            for position in np.flatnonzero(since < count - 1):  # its oldest frames are only in the opening's stack
                steps = int(since[position])
                stack = stacks[earlier[position, steps]]
                into[position][..., : (count - 1 - steps) * depth] = stack[..., steps * depth : (count - 1) * depth]


def _parts(*arrays: Array) -> Iterator[tuple[Any, ...]]:
    """Yield name and arrays of each part; for observations without parts, "" and the arrays."""
    names = arrays[0].dtype.names
    if names is None:
        yield "", *arrays
    for name in names or ():
        yield name, *(array[name] for array in arrays)


def _frame(part: Observations) -> tuple[int, ...]:
    """Return the shape of one frame of a part."""
    return part.shape if part.stack == 1 else (*part.shape[:-1], part.shape[-1] // part.stack)
