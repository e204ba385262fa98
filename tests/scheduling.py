"""Which worker of pytest-xdist runs which tests: whole files, and what is marked `waits` in a worker of its own.

Tests that wait for a scheduler, a server or a browser leave the processor idle, so they run beside the others instead
of before or after them. A worker that has none of its kind left takes of the other. Tests marked `alone` share nothing
with others of their file: they are handed out one by one, at the end, so that all workers end at the same time.
"""

import json
from collections.abc import Collection
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

NOTE = "marks"
"""Key of a worker's input with the file into which it writes the marks of tests; the controller collects no tests."""
APART = "::waits"
"""Suffix of the name of a unit of work whose tests wait."""


def note(config: pytest.Config, items: Collection[pytest.Item]) -> None:
    """Write the node ids of the tests marked `waits` and `alone` to the file that the controller reads. All workers
    write the same."""
    marks = {
        mark: [item.nodeid for item in items if item.get_closest_marker(mark) is not None]
        for mark in ("waits", "alone")
    }
    path = Path(config.workerinput[NOTE])  # type: ignore[attr-defined]
    beside = path.with_suffix(f".{config.workerinput['workerid']}")  # type: ignore[attr-defined]
    beside.write_text(json.dumps(marks))
    beside.rename(path)


class Scheduling(LoadFileScheduling):
    """Hands out files in the order of collection. The last of three or more workers begins with the tests that wait."""

    def __init__(self, config: pytest.Config, log: object, noted: Path) -> None:
        super().__init__(config, log)  # type: ignore[arg-type]
        self._noted, self._waiting, self._alone = noted, frozenset[str](), frozenset[str]()
        self._last = f"gw{self.numnodes - 1}" if self.numnodes > 2 else ""
        config.option.loadscopereorder = False

    def schedule(self) -> None:
        if self.collection is None and self._noted.exists():
            marks = json.loads(self._noted.read_text())
            self._waiting, self._alone = frozenset(marks["waits"]), frozenset(marks["alone"])
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid if nodeid in self._alone else super()._split_scope(nodeid)
        return scope + (APART if self._last and nodeid in self._waiting else "")

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._last:
            mine = (scope for scope in self.workqueue if scope.endswith(APART) == (node.gateway.id == self._last))
            self.workqueue.move_to_end(next(mine, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)
