"""Distribution of a replay's draws over task phases, a diagnostic from the task's own events.

An episode's task phase is the first of the suite's events that has not yet happened in it: on DoorKey the agent is on
the way to the key, to the door or to the goal (VLM-RB, app. D, on where other replays look).
"""

from __future__ import annotations

import numpy as np

from guidebench.harness.interfaces import Array, Metrics, Span, State, Store, Transition, TransitionColumn


class TaskPhases:
    """Task phases of S seeds' stored transitions, kept as a column of the store for diagnostics only; no learning part
    may read it."""

    column = TransitionColumn("phase", "fixed", dtype="uint8")

    def __init__(self, rows: int, events: tuple[str, ...]) -> None:
        self.events = events
        self._happened = np.zeros((rows, len(events)), bool)
        self._stored = np.zeros((rows, len(events) + 1), np.int64)
        """Number of drawable transitions by task phase; the last entry counts those after all events."""

    def added(self, index: int, live: Span, transition: Transition, store: Store) -> None:
        """Record that every seed stored `transition` at slot `index`; its task phase is that of the state before it."""
        phase = self._phase()
        rows = np.arange(len(phase))
        if self._stored[0].sum() == live.count:  # full: one transition was evicted
            evicted = np.full((len(phase), 1), (live.start - 1) % live.size)
            self._stored[rows, store.column("phase", evicted)[:, 0]] -= 1
        self._stored[rows, phase] += 1
        for row in rows:
            store.write("phase", int(row), np.array([index]), phase[row])
        self._happened |= transition.events
        self._happened[transition.terminated | transition.truncated] = False

    def metrics(self, index: Array, store: Store) -> Metrics:
        """Return the share of each task phase among the draws [S, B] and among all drawable transitions."""
        phases = store.column("phase", index)
        draw_shares = np.stack([np.bincount(row, minlength=len(self.events) + 1) for row in phases]) / index.shape[1]
        store_shares = self._stored / self._stored.sum(axis=1, keepdims=True)
        shares = {f"drawn/{event}": draw_shares[:, number] for number, event in enumerate(self.events)}
        return shares | {f"stored/{event}": store_shares[:, number] for number, event in enumerate(self.events)}

    def state(self, row: int) -> State:
        return {"seen": self._happened[row].copy(), "stored": self._stored[row].copy()}

    def load_state(self, row: int, state: State) -> None:
        self._happened[row], self._stored[row] = state["seen"], state["stored"]

    def _phase(self) -> Array:
        return np.where(self._happened.all(axis=1), len(self.events), self._happened.argmin(axis=1))
