"""A journal in memory, for tests that drive the loop themselves."""

from typing import Any


class MemoryJournal:
    """A Journal in memory."""

    def __init__(self) -> None:
        self.evaluations: list[Any] = []
        self.metrics: list[Any] = []
        self.states: dict[int, list[Any]] = {}
        self.rows = 0

    def evaluated(self, step, results) -> None:
        self.evaluations += [(step, *result) for result in results]

    def measured(self, row, step, metrics) -> None:
        self.metrics.append((row, step, metrics))

    def checkpoint(self, step, states) -> None:
        self.states[step] = [states(row) for row in range(self.rows)]

    def judged(self, *args) -> None: ...
    def timed(self, *args) -> None: ...
    def diverged(self, *args) -> None: ...
    def progress(self, *args) -> None: ...

    def consulting(self, *args) -> None: ...
