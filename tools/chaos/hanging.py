"""A suite whose tasks hang when they are told to: Gymnasium's classic tasks, as they are otherwise.

Chaos registers it by an entry point and writes the file that `VARIABLE` names. The next step in a process that the file
names does not return; the process takes the file away first, so that only one task hangs. A task sleeps, so that other
threads of its process go on, or it holds the interpreter, so that they do not.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guidebench.harness.interfaces import Task
from guidebench.harness.registry import register
from guidebench.suites.classic import Classic

SUITE = "chaos_classic"
VARIABLE = "GUIDEBENCH_CHAOS_HANG"
HOLDS = "holds the interpreter"
"""First line of the file for a task that does so; the names of processes follow."""


@register.suite(SUITE)
@dataclass(frozen=True)
class ChaosClassic(Classic):
    """The suite `classic` with tasks that can hang."""

    def make(self, task: str) -> Task:
        made: Any = super().make(task)
        step, marker = made.step, Path(os.environ.get(VARIABLE, "/nowhere"))

        def hanging_step(action: Any) -> Any:
            if marker.exists():
                hang(marker)
            return step(action)

        made.step = hanging_step
        return made  # type: ignore[no-any-return]


def hang(marker: Path) -> None:
    """Do not return, if the file names this process and no other process has taken it away."""
    try:
        first, *names = marker.read_text().splitlines()
        if Path("/proc/self/comm").read_text().strip() not in names:
            return
        marker.unlink()
    except FileNotFoundError:
        return
    sleep = ctypes.PyDLL(None).sleep if first == HOLDS else time.sleep
    while True:
        sleep(3600)
