"""Episodes as arrays: trajectories of datasets and demonstrations of a suite's solver."""

from __future__ import annotations

from typing import NamedTuple

from guidebench.harness.types import Array


class Trajectory(NamedTuple):
    """T steps of one episode or of its beginning; exactly the last step is terminated or truncated."""

    task: str
    """Name of the task in its suite."""
    observation: Array  # [T, …]
    action: Array  # [T, …]
    reward: Array  # [T] float32
    terminated: Array  # [T] bool
    truncated: Array  # [T] bool
    success: Array  # [T] bool
    next_observation: Array  # [T, …]
    opening: Array | None = None  # [n] uint8
    """Snapshot of the state in which the episode began; None where it is unknown."""

    @property
    def length(self) -> int:
        return len(self.reward)


class Demonstration(NamedTuple):
    """One episode of T steps that begins with `reset(seed)` and in which the solver succeeds at least once."""

    seed: int
    observation: Array  # [T, …]
    action: Array  # [T, …]
    reward: Array  # [T] float32
    terminated: Array  # [T] bool
    truncated: Array  # [T] bool
    success: Array  # [T] bool
    next_observation: Array  # [T, …]
    events: Array  # [T, E] bool
    snapshot: Array  # [T, n] uint8, of the state after each step

    @property
    def length(self) -> int:
        return len(self.reward)
