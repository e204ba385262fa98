"""Arrays of a dataset that others wrote, as a task's observations and actions."""

from __future__ import annotations

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Array, Observations

SLACK = 1e-4
"""Tolerance by which an action scaled to [-1, 1] may exceed this range."""


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
