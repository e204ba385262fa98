"""Masks of discrete actions: which of them an observation admits (`Observations.mask`)."""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array


def admitted(masks: Array) -> list[Array]:
    """Return the numbers of the actions that each mask [n, A] admits; of all actions where it admits none."""
    return [np.flatnonzero(mask) if mask.any() else np.arange(len(mask)) for mask in masks]
