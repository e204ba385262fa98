"""A suite whose tasks hang when they are told to: Gymnasium's classic tasks, as they are otherwise.

Chaos registers it by an entry point, writes the file that `VARIABLE` names, and the next step in a process of the kind
that the file names does not return. The process takes the file away first, so that only one task hangs.
"""

from __future__ import annotations

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


@register.suite(SUITE)
@dataclass(frozen=True)
class ChaosClassic(Classic):
    """The suite `classic` with tasks that can hang."""

    def make(self, task: str) -> Task:
        made: Any = super().make(task)
        step, marker = made.step, Path(os.environ.get(VARIABLE, "/nowhere"))

        def hanging_step(action: Any) -> Any:
            if marker.exists() and marker.read_text() == Path("/proc/self/comm").read_text().strip():
                marker.unlink()
                while True:
                    time.sleep(3600)
            return step(action)

        made.step = hanging_step
        return made  # type: ignore[no-any-return]
