"""Progress, speed and remaining time of runs, for the display of a study and for `bench status`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from guidebench.harness.texts import duration

WINDOW = 60.0
"""Seconds over which the speed of a run is averaged."""
SHORTEST = 1.0
"""Minimum seconds before a speed is reported."""


class Pace:
    """Steps per second of one worker over the last `WINDOW` seconds, evaluation and waiting included."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, since: int = 0) -> None:
        """`since`: the step from which the speed is measured, since those before take no gradient steps and say
        nothing about the rest of the run."""
        self._clock, self._since = clock, since
        self._marks: deque[tuple[float, int]] = deque()

    def __call__(self, step: int) -> float | None:
        """Record that the worker is at `step` now and return its speed, or None if too little time has passed."""
        if step < self._since:
            return None
        now = self._clock()
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[1][0] >= WINDOW:
            self._marks.popleft()
        since, first = self._marks[0]
        return (step - first) / (now - since) if now - since >= SHORTEST else None


class Standing(NamedTuple):
    """The progress of one run."""

    status: str
    """One of `guidebench.harness.records.schema.STATUSES`."""
    step: int
    steps: int
    rate: float | None = None
    """Recent environment steps per second; None if unknown, as before the first gradient steps."""
    score: float | None = None
    """Mean score of the episodes of the last evaluation; None before the first."""
    measure: str = "success"
    """Name of the score."""
    phase: str = ""
    """Name of the current run phase, for a run with several."""

    @property
    def score_text(self) -> str:
        """Format the score; "" before the first evaluation."""
        return "" if self.score is None else f"{self.measure} {self.score:.2f}"

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until this run is finished at its current speed, or None if unknown."""
        return (self.steps - self.step) / self.rate if self.status == "running" and self.rate else None


def rate(runs: Iterable[Standing]) -> float:
    """Return the environment steps per second of all running runs together."""
    return sum(run.rate or 0.0 for run in runs if run.status == "running")


def seconds_left(runs: Iterable[Standing]) -> float | None:
    """Return the seconds until every run is finished, assuming that waiting runs are as fast as running ones; None if
    no speed is known.

    >>> left([Standing("running", 50, 100, rate=10.0), Standing("waiting", 0, 100)])
    15.0
    """
    runs = list(runs)
    going = [run for run in runs if run.status == "running"]
    known = [run.rate for run in going if run.rate]
    if not known:
        return None
    mean = sum(known) / len(known)
    slowest = max((run.steps - run.step) / (run.rate or mean) for run in going)
    remaining = sum(run.steps - run.step for run in runs if run.status in ("running", "waiting", "stopped"))
    return max(slowest, remaining / sum(run.rate or mean for run in going))


def share(runs: Iterable[Standing]) -> str:
    """Return the share of all steps that is done, rounded down, so that 100% means finished."""
    runs = list(runs)
    steps = sum(run.steps for run in runs)
    return f"{100 * sum(run.step for run in runs) // steps if steps else 0}%"


def ahead(runs: Iterable[Standing]) -> str:
    """Describe the progress of a study: "42% of all steps, 563 steps/s, about 45 s left"."""
    runs = list(runs)
    speed, seconds = rate(runs), seconds_left(runs)
    parts = [f"{share(runs)} of all steps"]
    parts += [f"{speed:,.0f} steps/s"] if speed else []
    parts += [f"about {duration(seconds)} left"] if seconds is not None else []
    return ", ".join(parts)
