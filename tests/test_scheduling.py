"""The run of the tests ends, and runs every test once, when a worker is killed."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.scheduling import Scheduling

TESTS = ["first.py::a", "first.py::b", "last.py::a", "last.py::ends_its_worker", "last.py::c", "last.py::d"]


class Worker:
    """A worker of pytest-xdist: begins a test once it has the next one or is told to shut down."""

    def __init__(self, name: str) -> None:
        self.gateway, self.queue, self.shutting_down = SimpleNamespace(id=name), list[int](), False

    def send_runtest_some(self, tests: list[int]) -> None:
        self.queue += tests

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize("alone", [[], TESTS[2:]])
def test_a_worker_that_is_killed_costs_one_test(tmp_path: Path, alone: list[str]) -> None:
    (tmp_path / "marks").write_text(f'{{"waits": [], "alone": {alone}}}'.replace("'", '"'))
    config = SimpleNamespace(getvalue=lambda name: ["popen"], option=SimpleNamespace())
    scheduler, done = Scheduling(config, None, tmp_path / "marks"), list[str]()
    for name in ("gw0", "gw1"):
        worker = Worker(name)
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, TESTS)
        scheduler.schedule()
        while len(worker.queue) > 1 - worker.shutting_down:
            test = worker.queue.pop(0)
            if TESTS[test].endswith("ends_its_worker"):
                assert scheduler.remove_node(worker) == TESTS[test]
                break
            done.append(TESTS[test])
            scheduler.mark_test_complete(worker, test)
    assert done == [test for test in TESTS if not test.endswith("ends_its_worker")] and worker.shutting_down
