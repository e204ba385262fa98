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
        elif self.collection is not None:
            for node in self.nodes:  # twice, as at the start: a worker begins its last test only when told to shut down
                self._reschedule(node)
        super().schedule()

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that ended a worker, and hand its later tests to other workers. The base class also hands out
        files that are done, which report nothing, so that their worker waits forever, and the test that ended this
        worker, which ends the next one too."""
        units = self.assigned_work.pop(node)
        pending = [nodeid for unit in units.values() for nodeid, is_done in unit.items() if not is_done]
        for scope, unit in units.items():
            if remaining := {nodeid: False for nodeid in unit if nodeid in pending[1:]}:
                self.workqueue[scope] = remaining
        for other in self.nodes if pending else ():
            self._reschedule(other)
        return pending[0] if pending else None

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid if nodeid in self._alone else super()._split_scope(nodeid)
        return scope + (APART if self._last and nodeid in self._waiting else "")

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._last:
            mine = (scope for scope in self.workqueue if scope.endswith(APART) == (node.gateway.id == self._last))
            self.workqueue.move_to_end(next(mine, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)
