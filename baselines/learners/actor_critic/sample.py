"""Inputs of one update of an actor and its critics, and the kind of the update."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor

from guidebench.baselines.tensors import ObservationTensors
from guidebench.harness.interfaces import Difference


class Sample(NamedTuple):
    """A batch for the seeds of one block as tensors, and every random number that its update uses."""

    observation: ObservationTensors  # [S, B, …]
    action: Tensor  # [S, B, A]
    reward: Tensor  # [S, B]
    continues: Tensor  # [S, B], γ(1 − terminated)
    next_observation: ObservationTensors  # [S, B, …]
    weight: Tensor | None  # [S, B]
    chosen: Tensor | None  # int64 [S, M], indices of the target critics; None for all
    next_noise: Tensor  # [S, B, A], standard normal, for the action in s′
    noise: Tensor | None  # [S, B, A], for the action in s, if the actor is updated and draws one
    more: Mapping[str, Tensor] = MappingProxyType({})  # what else the update of a subclass reads, by name


class Kind(NamedTuple):
    """All that determines which kernels an update launches, except the batch size; the key of its CUDA graph."""

    block: int
    """Index of the block of seeds; on a GPU there is one block."""
    acts: bool
    """Whether the update includes the actor."""
    renews: tuple[bool, ...]
    """Seeds whose target networks are updated."""
    reducible: Difference | None
    """Kind of reducible loss that the replay requests, if any."""
    weighted: bool
    """Whether its batches have importance weights."""
    active: tuple[bool, ...]
    """Seeds whose networks are updated."""
