"""Answers from the task's own events, computed in the worker without rendering or a model process.

Only a judge whose backend is `oracle` gets events, so that no other model sees privileged state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import CallResult, Usage
from guidebench.harness.models.questions import InFlight, Memory
from guidebench.harness.streams import Streams

Oracle = Callable[[Array, np.random.Generator], float]
"""The events of a clip, bool [m, E], and the question's own generator -> P(yes), in [0, 1]."""


class OracleBackend:
    """Answers each question immediately; its errors depend only on the seed and the question's ordinal."""

    restarts = 0
    memory = Memory()
    halted = ""

    def __init__(self, oracle: Oracle, streams: Sequence[Streams]) -> None:
        self._oracle, self._streams = oracle, streams
        self._answers: dict[int, CallResult] = {}
        self.seconds = 0.0
        self.clips = 0

    def ask(self, item: InFlight, ahead: bool = False) -> None:
        started = time.perf_counter()
        generator = self._streams[item.ask.row].of_question(item.ordinal, item.ask.to)
        score = self._oracle(item.ask.events, generator)
        usage = Usage(calls=1, seconds=time.perf_counter() - started)
        self._answers[item.number] = CallResult(score, usage=usage, billed=usage)
        self.clips += 1
        self.seconds += usage.seconds

    def arrived(self, number: int) -> bool:
        return number in self._answers

    def wait(self, number: int) -> bool:
        return True

    def take(self, number: int, stop: Callable[[], bool] | None = None) -> tuple[CallResult, float]:
        """Return the answer about a clip and a wait of 0 seconds."""
        return self._answers.pop(number), 0.0

    def poll(self) -> None:
        """Do nothing, because every question is answered already."""

    def close(self) -> None:
        """Do nothing, because there is no process to end."""
