"""Follows the jobs of a launcher to their ends, and ends them when the command is stopped."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from guidebench.harness.launchers.base import Event, Launcher
from guidebench.harness.loop.job import Job

TOGETHER = 0.5
"""Seconds within which stop signals count as one; a later second signal kills the workers immediately."""
EVERY = 0.2
"""Seconds between two looks at the signals received."""


def follow(launcher: Launcher, jobs: Sequence[Job], watch: Callable[[Event], None]) -> bool:
    """Run jobs to their ends. Return whether SIGINT or SIGTERM ended them early; then all workers have ended."""
    cancelled = 0
    with _Signals() as signals:
        launcher.submit(jobs)
        while launcher.open:
            if signals.count > cancelled:
                cancelled = signals.count
                launcher.cancel(now=cancelled > 1)
            for event in launcher.poll(EVERY):
                watch(event)
    return cancelled > 0


class _Signals:
    """Counts SIGINT and SIGTERM while active; signals within TOGETHER seconds, as from `timeout`, count as one."""

    def __init__(self) -> None:
        self.count = 0
        self._last = -math.inf
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        def handle(*_: Any) -> None:
            now = time.monotonic()
            self.count += now - self._last > TOGETHER
            self._last = now

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous_handlers[number] = signal.signal(number, handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._previous_handlers.items():
            signal.signal(number, before)
