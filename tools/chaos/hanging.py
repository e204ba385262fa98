"""A suite whose tasks hang when they are told to (`marker.py`): Gymnasium's classic tasks, as they are otherwise.

Only the commands that chaos starts import this module, by an entry point: importing it registers the suite.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guidebench.harness.interfaces import Task
from guidebench.harness.registry import register
from guidebench.suites.classic import Classic
from tools.chaos.marker import SUITE, VARIABLE, hang


@register.suite(SUITE)
@dataclass(frozen=True)
class ChaosClassic(Classic):
    """The suite `classic` with tasks that can hang."""

    def make(self, task: str) -> Task:
        task_: Any = super().make(task)
        step, marker = task_.step, Path(os.environ.get(VARIABLE, "/nowhere"))

        def hanging_step(action: Any) -> Any:
            if marker.exists():
                hang(marker)
            return step(action)

        task_.step = hanging_step
        return task_  # type: ignore[no-any-return]
