"""The recorded states of episodes whose object is tracked, and the tracker's question about them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from guidebench.harness.interfaces import Array, Question, State
from guidebench.methods.kagi.questions import TRACKER


@dataclass
class Film:
    """An episode from its first state until the tracker's answer about it has arrived."""

    first: int
    """Number of its first transition in the store of what the run collects."""
    snapshots: list[Array] = field(default_factory=list)
    """Snapshots of its states so far, uint8 [k] each; empty once the tracker is asked."""
    length: int = 0
    """Number of its transitions so far."""
    ended: bool = False
    grasp: Array = field(default_factory=lambda: np.zeros((0, 2)))
    """Grasp points (u, v) from which the model of the waypoints selects, float64 [n, 2]."""
    waypoints: Array | None = None
    """Its waypoints in pixels, float64 [m, 3]; None while they are awaited."""
    content: str = ""
    """Content of the question to the tracker (`tracking.to_follow`)."""

    def step(self, snapshot: Array, ended: bool) -> None:
        """Add the state after a transition."""
        self.snapshots.append(snapshot)
        self.length, self.ended = self.length + 1, ended

    @property
    def due(self) -> bool:
        """Whether the tracker can be asked: the episode has ended, and its waypoints are known."""
        return self.ended and self.waypoints is not None

    def question(self, row: int) -> Question:
        """Return the question to the tracker about all recorded states of a seed's episode, and drop these states."""
        shots, self.snapshots = np.stack(self.snapshots), []
        key = np.array([self.first], np.int64)
        return Question(row, key, shots, np.zeros((1, 0), bool), self.content, TRACKER)

    def state(self) -> State:
        return {**vars(self), "snapshots": np.stack(self.snapshots) if self.snapshots else None}

    @classmethod
    def restored(cls, state: State) -> Film:
        """Return the film that `state` describes."""
        shots = state["snapshots"]
        return cls(**{**state, "snapshots": [] if shots is None else list(shots)})
