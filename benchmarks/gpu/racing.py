"""Contenders that alternate in turns within one process, each in a thread of its own, of which one runs at a time.

Threads share what takes long to begin: importing packages and starting CUDA. (On a CPU, processes alternate: see
benchmarks/turns.py.) A contender trains until it is told to stop, and calls a function after every step, which waits
for the contender's next turn. One that raises an error leaves the others as they are.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Sequence

import torch

from benchmarks.gpu import figures
from benchmarks.gpu.figures import Row
from benchmarks.gpu.machine import synchronise

Stop = Callable[[], bool]
SHORTEST = 0.2
"""Seconds that a turn should take at least, on average over the contenders."""


class Contender:
    """One side of a comparison. `train(stop)` takes steps and calls `stop` after each, until that returns True."""

    def __init__(self, name: str, train: Callable[[Stop], None], device: str, seeds: int = 1) -> None:
        self.name, self.seeds, self.error = name, seeds, ""
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self.note: Callable[[], str] = lambda: ""
        """What is to be said of it when the race is over."""
        self._train, self._device = train, device
        self._remaining, self._over = 0, False
        self._mine, self._done = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True, name=name).start()

    def take(self, steps: int) -> float:
        """Let it take `steps` steps, and return the seconds; raise RuntimeError if it cannot."""
        begun = time.perf_counter()
        self._remaining = steps
        self._mine.release()
        self._done.acquire()
        if self.error:
            raise RuntimeError(self.error)
        return time.perf_counter() - begun

    def turn(self, steps: int) -> None:
        """Take a turn that counts."""
        seconds = self.take(steps)
        self.steps.append(steps)
        self.seconds.append(seconds)

    def rates(self) -> list[float]:
        """Return the steps per second of each turn, of all seeds together."""
        return [self.seeds * steps / taken for steps, taken in zip(self.steps, self.seconds, strict=True)]

    def _run(self) -> None:
        self._mine.acquire()
        torch.set_num_threads(1)  # each thread has a setting of its own
        try:
            self._train(self._step)
            self.error = self.error or "it ended before it was asked to"
        except BaseException as error:  # of any package; the others go on
            self.error = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        self._done.release()

    def _step(self) -> bool:
        self._remaining -= 1
        if self._remaining <= 0:
            synchronise(self._device)
            self._done.release()
            self._mine.acquire()
        return False


def race(
    contenders: Sequence[Contender], warm_up: int, multiple: int, rounds: int, deadline: float, tell: Callable[[], None]
) -> list[Contender]:
    """Warm up all contenders, then let them take turns until `deadline`; return those that finished.

    A turn has a multiple of `multiple` steps, as many for each, so that `rounds` of them fit into the time; at least
    two are run. `tell` is called after each turn, and after a contender is lost.
    """
    running, pace = [], 0.0
    for contender in contenders:
        try:
            contender.take(warm_up)
            pace = max(pace, contender.take(multiple) / multiple)
            running.append(contender)
        except RuntimeError:
            tell()
    remaining = max(0.0, deadline - time.monotonic())
    target_seconds = max(SHORTEST, remaining / (rounds * len(running))) if remaining and running else 0.0
    steps = multiple * max(1, round(target_seconds / pace / multiple)) if running else 0
    longest = 0.0
    for number in range(rounds):
        if number >= 2 and time.monotonic() + longest > deadline:
            break
        begun = time.monotonic()
        for contender in running[:: 1 if number % 2 else -1]:
            with contextlib.suppress(RuntimeError):
                contender.turn(steps)
            tell()
        running = [contender for contender in running if not contender.error]
        longest = max(longest, time.monotonic() - begun)
    return running


def rows(contenders: Sequence[Contender], beside: Contender, prefix: str, batch: int) -> list[Row]:
    """Return the rows of contenders with turns, and those that failed with their error."""
    table_rows = []
    for contender in contenders:
        label = f"{prefix}, {contender.name}"
        if contender.error or not contender.seconds:
            why = contender.error or "it had no turn yet"
            table_rows.append(Row(label, None, "steps/s", seeds=contender.seeds, batch=batch, note=why[:300]))
            continue
        amounts = [contender.seeds * steps for steps in contender.steps]
        more = {"seeds": contender.seeds, "batch": batch, "note": contender.note()}
        row = figures.of_turns(label, "steps/s", amounts, contender.seconds, **more)
        if contender is not beside and beside.seconds and not beside.error:
            turns = min(len(contender.seconds), len(beside.seconds))
            row = figures.compared(row, beside.name, contender.rates()[:turns], beside.rates()[:turns])
        table_rows.append(row)
    return table_rows
