"""Records which lines and branches a process executes, under the name of the test that started it.

`coverage_map` copies this file to a folder on `PYTHONPATH`, from which every interpreter imports it when it starts; so
it imports nothing of this project. Forked processes go on recording. A process writes what it has executed when it
exits, forks, sends an answer to another process or is about to kill itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing.connection
import os
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

import coverage

DIRECTORY = "GUIDEBENCH_RECORDING"
"""Environment variable with the folder of the recordings. Nothing is recorded where it is not set."""
TREE = "GUIDEBENCH_RECORDED_TREE"
"""Environment variable with the checkout whose files are recorded."""
CONTEXT = "GUIDEBENCH_RECORDED_TEST"
"""Environment variable with the name of the test or fixture for which processes run."""
FOLDERS = ("harness", "suites", "baselines", "methods", "results", "reports", "guidebench")
LIMIT = 30.0
"""Seconds for which an exiting process waits for another of its threads that is writing."""


class Recorder:
    """Lines and branches that this process has executed and not yet written."""

    def __init__(self, directory: Path, tree: Path) -> None:
        self._directory, self._tree = directory, tree.resolve()
        self._file, self._pid = self._new_file()
        self._arcs: dict[str, set[tuple[int, int]]] = {}
        """File -> branches that this process has written already."""
        self._turn = threading.RLock()
        self._coverage = coverage.Coverage(
            data_file=None, branch=True, config_file=False, messages=False,
            include=[f"{self._tree / folder}/*" for folder in FOLDERS],
        )  # fmt: skip
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])

    def _new_file(self) -> tuple[Path, int]:
        return self._directory / f"{os.getpid()}-{uuid.uuid4().hex}.jsonl", os.getpid()

    def begin(self) -> None:
        """Start recording, in this process and in its forks."""
        self._coverage.start()
        atexit.unregister(self._coverage._atexit)
        os.register_at_fork(before=self._before_fork, after_in_parent=self._turn.release, after_in_child=self._forked)
        atexit.register(self.write)

    def _before_fork(self) -> None:
        self.write()
        self._turn.acquire()

    def _forked(self) -> None:
        self._turn = threading.RLock()
        self._file, self._pid = self._new_file()

    def write(self, context: str | None = None, **about: Any) -> None:
        """Append what was executed since the last call to this process's file. `context`: name of the test, by default
        that of the environment; `about`: further facts on the test, such as its duration."""
        if not self._turn.acquire(timeout=LIMIT):
            return
        try:
            if context is None:
                context = os.environ.get(CONTEXT, "")
            lines: dict[str, str] = {}
            arcs: dict[str, list[tuple[int, int]]] = {}
            data = self._coverage.get_data()
            for path in data.measured_files():
                executed = {*(data.arcs(path) or ())}
                if not executed:
                    continue
                name = os.path.relpath(path, self._tree)
                bits = 0
                for number in {number for arc in executed for number in arc if number > 0}:
                    bits |= 1 << number
                lines[name] = f"{bits:x}"
                recorded_arcs = self._arcs.setdefault(name, set())
                if added := executed - recorded_arcs:
                    arcs[name] = sorted(added)
                    recorded_arcs |= added
            data.erase()
            if lines or about:
                record = {"test": context, "lines": lines, "arcs": arcs, **about}
                with open(self._file, "a") as file:
                    file.write(f"{json.dumps(record)}\n")
        finally:
            self._turn.release()


recorder: Recorder | None = None
runs_tests = 0
"""Id of this process if it runs tests; such a process calls `write` itself."""


def begin() -> None:
    """Start recording this process if its environment variables ask for it."""
    global recorder
    if recorder is not None or DIRECTORY not in os.environ:
        return
    recorder = Recorder(Path(os.environ[DIRECTORY]), Path(os.environ[TREE]))
    recorder.begin()
    _write_before_ends(recorder)


def _write_before_ends(recorder: Recorder) -> None:
    """Patch `os._exit`, `os.kill`, `signal.signal` and connections so that the recorder writes before this process ends
    without `atexit` functions or may be killed."""
    exit_at_once, kill, set_handler = os._exit, os.kill, signal.signal
    send = multiprocessing.connection.Connection.send

    def write() -> None:
        with contextlib.suppress(Exception):
            recorder.write()

    def exiting(code: int) -> Any:
        write()
        exit_at_once(code)

    def killing(pid: int, number: int) -> None:
        if pid == os.getpid():
            write()
        kill(pid, number)

    def terminated(number: int, frame: object) -> None:
        write()
        set_handler(number, signal.SIG_DFL)
        kill(os.getpid(), number)

    def handling(number: Any, handler: Any) -> Any:
        is_default = number == signal.SIGTERM and handler is signal.SIG_DFL
        before = set_handler(number, terminated if is_default else handler)
        return signal.SIG_DFL if before is terminated else before

    def sending(connection: Any, message: object) -> None:
        if os.getpid() != runs_tests:  # the other process may kill this one when it has the answer
            write()
        send(connection, message)

    os._exit, os.kill, signal.signal = exiting, killing, handling
    multiprocessing.connection.Connection.send = sending  # type: ignore[method-assign]
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        set_handler(signal.SIGTERM, terminated)
