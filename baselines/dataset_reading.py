"""What readers of datasets that others wrote share: names, parts that are read together, arrays in a task's spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Array, Observations

TOGETHER = 2**28
"""Bytes of arrays that the separate process sends at once: 256 MiB (choice)."""
SLACK = 1e-4
"""Tolerance by which an action scaled to [-1, 1] may exceed this range."""


def check_name(name: str, path: str, pattern: re.Pattern[str], format_name: str, example: str) -> None:
    """Raise UserError if both the id `name` and the directory `path` are set, or the id does not match the pattern of a
    format's ids, of which `example` is one."""
    if name and path:
        raise UserError(f"dataset.id={name} and dataset.path={path} name two datasets; leave one out")
    if name and not pattern.fullmatch(name):
        raise UserError(f"dataset.id={name!r} is no name of a {format_name} dataset; expected one such as {example}")


def portions(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield the episodes to read at once, in order: as many as have at most `TOGETHER` bytes, or one. `sizes`: bytes of
    each episode."""
    first = together = 0
    for number, size in enumerate(sizes):
        if number > first and together + size > TOGETHER:
            yield slice(first, number)
            first, together = number, 0
        together += size
    if sizes:
        yield slice(first, len(sizes))


def joined(parts: Mapping[str, Array], space: Observations) -> Array:
    """Return arrays [T, …] by the name of their part as observations with these parts, [T]."""
    record = np.zeros(len(next(iter(parts.values()))), space.numpy)
    for name, array in parts.items():
        record[name] = array
    return record


def as_observations(array: Array, space: Observations, location: str) -> Array:
    """Return floats in the task's precision; UserError if any other dtype or the shape differs from the task's."""
    dtype = np.dtype(space.dtype)
    alike = array.dtype == dtype or (array.dtype.kind == "f" and dtype.kind == "f")
    if array.shape[1:] != space.shape or not alike:
        raise UserError(
            f"{location} are {array.dtype} of shape {array.shape[1:]}; the task's are {dtype} of shape {space.shape}"
        )
    return array.astype(dtype)


def as_actions(array: Array, space: Actions, low: Array, high: Array, location: str) -> Array:
    """Return vectors of actions scaled from [low, high] to [-1, 1], float32; an entry whose bounds are equal becomes 0.
    UserError for other arrays than vectors of the task's shape."""
    if array.shape[1:] != space.shape or array.dtype.kind != "f":
        raise UserError(
            f"{location}: actions are {array.dtype} of shape {array.shape[1:]}; the task's are vectors of shape "
            f"{space.shape}"
        )
    half = np.where(high > low, (high - low) / 2, 1.0)
    scaled = (array - (high + low) / 2) / half
    return np.where(np.abs(scaled) <= 1 + SLACK, scaled.clip(-1, 1), scaled).astype(np.float32)
