"""The processes of a command: how they are started, told apart by their role, and ended.

Every process inherits a mark in its environment (`tests/guardian.py`), so none is missed whatever its session or
parent, and a guardian ends those that remain if chaos itself is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from guidebench.harness import fork_server
from tests import guardian

COMMAND, WORKER, MODEL, HOST = "command", "worker", "model process", "model host"
TASKS, FORK_SERVER = "task process", "fork server"
NAMES = {
    WORKER: ("bench worker",), MODEL: ("bench serving",), HOST: ("bench process",),
    TASKS: ("bench companion",),
}  # fmt: skip
"""Target -> the names of its processes (`fork_server`)."""
IMPORTED = (
    "torch", "pyarrow.parquet", "guidebench.harness.run.worker", "guidebench.harness.models.service",
    "tools.chaos.forked",
)  # fmt: skip
"""Modules of the interpreter from which most commands are forked."""
LOADING = (
    "transformers.models.auto.processing_auto", "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "transformers.models.qwen2_5_vl.processing_qwen2_5_vl", "transformers.models.clip.modeling_clip",
    "transformers.models.clip.processing_clip",
)  # fmt: skip
"""Further modules of that interpreter if commands load models."""


class RunningCommand:
    """A running command, its processes and its output."""

    def __init__(self, words: Sequence[str], log: Path, mark: str, others: set[int], is_fresh: bool) -> None:
        """Start the command. `log`: file for its output; `mark`: text in the environment of all its processes;
        `others`: marked processes that are not the command's; `is_fresh`: whether it is a new interpreter with its own
        fork server, as when a user starts it."""
        self._mark, self._others, self._log = mark, others, log
        self._is_fresh, self._begin = is_fresh, log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "start_new_session": True}
            self.process: fork_server.Process = (
                subprocess.Popen([sys.executable, "-m", "guidebench", *words], **options)  # type: ignore[call-overload]
                if is_fresh
                else fork_server.start("tools.chaos.forked", *words, **options)  # type: ignore[arg-type]
            )

    @property
    def output(self) -> str:
        """Return what the command has printed so far."""
        with open(self._log, errors="replace") as file:
            file.seek(self._begin)
            return file.read()

    def members(self) -> list[int]:
        """Return the processes of the command that have not ended, itself included."""
        return [pid for pid in guardian.marked_processes(self._mark) if pid not in self._others]

    def targets(self, target: str) -> list[int]:
        """Return the ids of the command's processes of the kind `target`, oldest first. Processes that run tasks are
        younger than their worker."""
        if target == COMMAND:
            return [self.process.pid]
        named = {pid: name_of(pid) for pid in self.members()}
        workers = [pid for pid, name in named.items() if name in NAMES[WORKER]]
        if target == FORK_SERVER:
            parents = {parent_of(pid) for pid in workers} & {*named} - {self.process.pid}
            return sorted(parents)
        first = min((began(pid) for pid in workers), default=None)
        pids = [pid for pid, name in named.items() if name in NAMES[target]]
        if target == TASKS:
            pids = [pid for pid in pids if first is not None and began(pid) >= first]
        return sorted(pids, key=lambda pid: (began(pid), pid))

    def end(self) -> None:
        """Kill all processes of the command."""
        with contextlib.suppress(OSError):
            self.process.kill()
        for _ in range(200):
            remaining = self.members()
            for pid in remaining:
                send(pid, signal.SIGKILL)
            if not remaining:
                break
            time.sleep(0.05)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10.0)


@contextlib.contextmanager
def marked_run(mark: str, loads: bool = False) -> Iterator[None]:
    """Mark all processes that this process starts in the context, fork commands from one preloaded interpreter, and end
    all of them when the context ends or this process dies. `loads`: whether the commands load models."""
    watching = guardian.watch(mark)
    try:
        with fork_server.running(*IMPORTED, *(LOADING if loads else ())):
            fork_server.start(
                "tools.chaos.forked"
            ).wait()  # its server now runs, so it counts as none of the command's processes
            yield
    finally:
        guardian.end(mark)
        assert watching.stdin is not None
        watching.stdin.close()
        watching.wait()


def send(pid: int, number: int) -> bool:
    """Send a signal; return whether the process existed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def name_of(pid: int) -> str:
    """Return the name of a process; "" if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _status(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the process's name; [] if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def parent_of(pid: int) -> int:
    return int((_status(pid) or ["", "0"])[1])


def began(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if it has ended."""
    fields = _status(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def is_stopped(pid: int) -> bool:
    """Return whether a process is under SIGSTOP."""
    return _status(pid)[:1] == ["T"]


def command_names(pids: Sequence[int]) -> Mapping[int, str]:
    return {pid: name_of(pid) or "ended" for pid in pids}
