"""Questions in flight. An answer to a question of step t is applied at step t + delay, whenever it arrived.

If it is late the loop waits and the wait is counted, so an asynchronous run is reproducible and resumable. With
`delay=None` an answer is applied when it arrives, which depends on the machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from harness.interfaces import Answer, Ask, State

POLL_EVERY = 8
"""Steps from one look at what has arrived to the next while nothing is due: a judge stays fed, and it costs nothing."""


class InFlight(NamedTuple):
    """A question on its way: `number` names it to the backend, `ordinal` counts within its seed."""

    number: int
    ordinal: int
    step: int
    ask: Ask


class Backend(Protocol):
    """What answers: a process that is sent a clip's snapshots, or an oracle that is told its events."""

    seconds: float
    clips: int
    restarts: int

    def ask(self, item: InFlight) -> None: ...
    def arrived(self, number: int) -> bool: ...
    def take(self, number: int) -> tuple[float, float]: ...
    def poll(self) -> None: ...
    def close(self) -> None: ...


class Asks:
    """All questions of a worker, per seed in the order in which they were asked."""

    def __init__(self, rows: int, delay: int | None, backend: Backend) -> None:
        self._delay = delay
        self._backend = backend
        self._flight: list[list[InFlight]] = [[] for _ in range(rows)]
        self._ordinals = [0] * rows
        self._numbers = 0
        self._next_due = math.inf
        self.waited = 0.0
        """Seconds that the loop stood still for a late answer."""

    def submit(self, ask: Ask, step: int) -> None:
        self._put(ask, step, self._ordinals[ask.row])
        self._ordinals[ask.row] += 1

    def _put(self, ask: Ask, step: int, ordinal: int) -> None:
        item = InFlight(self._numbers, ordinal, step, ask)
        self._flight[ask.row].append(item)
        self._backend.ask(item)
        self._numbers += 1
        self._next_due = min(self._next_due, self._due_step(item))

    def due(self, step: int) -> list[tuple[InFlight, Answer]]:
        """The answers that count from `step` on, seed by seed, in the order asked; waits for those that are late."""
        if step < self._next_due and step % POLL_EVERY:
            return []
        self._backend.poll()
        found = []
        for queue in self._flight:
            while queue and self._counts(queue[0], step):
                item = queue.pop(0)
                score, seconds = self._backend.take(item.number)
                self.waited += seconds
                found.append((item, Answer(item.ask.row, item.ask.key, score)))
        self._next_due = min((self._due_step(queue[0]) for queue in self._flight if queue), default=math.inf)
        return found

    def _counts(self, item: InFlight, step: int) -> bool:
        return self._due_step(item) <= step and (self._delay is not None or self._backend.arrived(item.number))

    def _due_step(self, item: InFlight) -> int:
        """The step at which an answer counts; with `delay=None` the first at which it might."""
        return item.step + (self._delay or 0)

    @property
    def in_flight(self) -> int:
        return sum(len(queue) for queue in self._flight)

    def state(self, row: int) -> State:
        """The questions of one seed that are not answered yet, snapshots and events included."""
        return {
            "ordinal": self._ordinals[row],
            "asks": [
                {
                    "step": item.step,
                    "ordinal": item.ordinal,
                    "key": item.ask.key,
                    "snapshots": item.ask.snapshots,
                    "events": item.ask.events,
                }
                for item in self._flight[row]
            ],
        }

    def load_state(self, row: int, state: State) -> None:
        """Ask again what was in flight."""
        self._ordinals[row] = int(state["ordinal"])
        for item in state["asks"]:
            ask = Ask(row, *(np.asarray(item[name]) for name in ("key", "snapshots", "events")))
            self._put(ask, int(item["step"]), int(item["ordinal"]))
