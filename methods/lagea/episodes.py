"""LaGEA's records of one seed's episodes: first frames, feedback, and the episode in progress."""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array, State


class Episodes:
    """The stored episodes of one seed: the vector of each first frame, that frame's weight, and the feedback's vector.

    A frame after a transition lies in a column of the store. The frame before an episode's first transition, and the
    feedback of a whole episode, are kept here once per episode. Entries are float32, NaN until they arrive.
    """

    def __init__(self, width: int, text_width: int) -> None:
        """`width`, `text_width`: dimensions of the vectors of frames and of feedback."""
        self.firsts = np.zeros(0, np.int64)
        """Number of each episode's first transition, increasing, [E]."""
        self.openings = np.zeros((0, width), np.float32)
        """Vectors of the first frames, [E, width]."""
        self.weights = np.zeros(0, np.float32)
        """Weight ŵ_0 of each first frame, [E]."""
        self.feedback = np.zeros((0, text_width), np.float32)
        """Vectors of the feedback, [E, text_width]."""

    def open(self, first: int, oldest: int) -> None:
        """Add an episode whose first transition has the number `first`, and drop the episodes that ended before
        transition `oldest`."""
        nan = np.full(1, np.nan, np.float32)
        self.firsts = np.append(self.firsts, first)
        self.openings = np.concatenate([self.openings, np.broadcast_to(nan, (1, self.openings.shape[1]))])
        self.weights = np.append(self.weights, nan)
        self.feedback = np.concatenate([self.feedback, np.broadcast_to(nan, (1, self.feedback.shape[1]))])
        gone = int(np.searchsorted(self.firsts, oldest, "right")) - 1
        if gone > 0:
            self.firsts, self.openings = self.firsts[gone:], self.openings[gone:]
            self.weights, self.feedback = self.weights[gone:], self.feedback[gone:]

    def of(self, numbers: Array) -> Array:
        """Return the index, in the arrays, of the episode of each transition with these numbers [n], int [n]; -1 before
        the first episode."""
        return np.searchsorted(self.firsts, numbers, "right") - 1

    def place(self, first: int) -> int | None:
        """Return the index, in the arrays, of the episode whose first transition has this number; None if it was
        dropped."""
        place = int(self.of(np.array([first]))[0])
        return place if place >= 0 and self.firsts[place] == first else None

    def state(self) -> State:
        return {
            "firsts": self.firsts.copy(), "openings": self.openings.copy(), "weights": self.weights.copy(),
            "feedback": self.feedback.copy(),
        }  # fmt: skip

    def load_state(self, state: State) -> None:
        self.firsts, self.openings = np.array(state["firsts"]), np.array(state["openings"])
        self.weights, self.feedback = np.array(state["weights"]), np.array(state["feedback"])


class Recording:
    """An episode's snapshots, successes and measurements, from its first state until its frames are embedded."""

    def __init__(self, number: int, first: int, opening: Array) -> None:
        """`number`: ordinal of the episode within its run, from 0; `first`: number of its first transition; `opening`:
        snapshot of the state after the reset."""
        self.number, self.first = number, first
        self.snapshots = [opening]
        self.successes: list[bool] = []
        self.measures: list[Array] = []

    def step(self, snapshot: Array, success: bool, measures: Array | None) -> None:
        """Add a step: the snapshot of the state after it, whether the task is solved there, and privileged measurements
        for an oracle [P]."""
        self.snapshots.append(snapshot)
        self.successes.append(success)
        if measures is not None:
            self.measures.append(measures)

    @property
    def length(self) -> int:
        """Steps so far."""
        return len(self.successes)

    @property
    def last(self) -> int:
        """Number of the newest transition."""
        return self.first + self.length - 1

    def state(self) -> State:
        return {
            "number": self.number,
            "first": self.first,
            "snapshots": np.stack(self.snapshots) if self.snapshots else None,
            "successes": np.array(self.successes, bool),
            "measures": np.stack(self.measures) if self.measures else None,
        }

    @classmethod
    def of_state(cls, state: State) -> Recording:
        """Return the recording that `state` describes."""
        recording = cls(int(state["number"]), int(state["first"]), np.zeros(0, np.uint8))
        recording.snapshots = [] if state["snapshots"] is None else [*state["snapshots"]]
        recording.successes = [bool(success) for success in state["successes"]]
        recording.measures = [] if state["measures"] is None else [*state["measures"]]
        return recording
