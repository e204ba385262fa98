"""A network disk as its clients see it, in simulated time: several machines whose processes are threads of this one.

The files are real ones below a directory; what the clients of NFS make of them is simulated:

- a listing of a directory, and the names that it was found not to have, are remembered for up to a minute, unless the
  client itself changes the directory; so are the attributes of a file, unless it is opened;
- any request may be held up for seconds or minutes, and arrives then, also after others have taken over;
- a request may fail with ESTALE, once; a link or a rename may be done and its reply be lost, so that the repeated
  request finds the name taken, or the source gone;
- the mtimes are those of the server's clock, or of the clients' clocks, and each of these may be an hour off.

At each request another thread may go on; a generator with a seed decides which. A thread that waits for time lets time
pass; a killed one never comes back.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from guidebench.harness.records import leases
from guidebench.harness.run import worker

CACHED = 60.0
"""Seconds for which a client remembers a directory (nfs(5), acdirmax)."""
STALE, REPEATED, HELD_UP = 0.004, 0.04, 0.01
"""Probabilities that a request fails once, that its reply is lost, and that it is held up."""


class Killed(BaseException):
    """Raised in the thread of a process that was killed, to end it."""


class Machine:
    """A client of the disk: its cache and its clocks."""

    def __init__(self, name: str, boot: float, wall: float) -> None:
        self.name, self.boot, self.wall = name, boot, wall
        self.paused = 0.0
        """Seconds for which the machine was paused, like a virtual machine, without its clocks noticing."""
        self.listings: dict[str, tuple[float, list[str]]] = {}
        self.missing: dict[str, float] = {}
        self.attributes: dict[str, tuple[float, os.stat_result]] = {}

    def forget(self, path: str) -> None:
        """Drop cached names of a directory that this machine has changed."""
        self.listings.pop(path, None)
        self.missing = {name: until for name, until in self.missing.items() if os.path.dirname(name) != path}


class Process(threading.Thread):
    """A process of a machine: a thread that runs when it is its turn."""

    def __init__(self, disk: NetworkDisk, machine: Machine, pid: int, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.disk, self.machine, self.pid, self.work = disk, machine, pid, work
        self.turn = threading.Semaphore(0)
        self.wakes, self.killed, self.ended = 0.0, False, False
        self.last_request = False
        """Whether the machine is lost: the request on its way still arrives and is the last."""
        self.error: BaseException | None = None

    def run(self) -> None:
        _current.process = self
        self.turn.acquire()
        try:
            if not self.killed:
                self.work()
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.ended = True
        self.disk.control.release()

    def rest(self, seconds: float = 0.0) -> None:
        """Let other processes run, for at least some seconds of simulated time."""
        self.wakes = self.disk.now + seconds
        self.disk.control.release()
        self.turn.acquire()
        if self.killed:
            raise Killed
        self.killed = self.last_request


class Entry(NamedTuple):
    """An entry of os.scandir; the name may come from the client's cache."""

    name: str
    path: str

    def stat(self, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path)

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        return os.path.isdir(self.path)

    def is_file(self, follow_symlinks: bool = True) -> bool:
        return os.path.isfile(self.path)

    def is_symlink(self) -> bool:
        return False

    def __fspath__(self) -> str:
        return self.path


class Listing:
    """The iterator and context manager that os.scandir returns."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Iterator[Entry]:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        pass


_current = threading.local()


def process() -> Process | None:
    """Return the simulated process of this thread, or None outside the simulation."""
    return getattr(_current, "process", None)


class NetworkDisk:
    """A disk below `place`, and the machines that use it."""

    def __init__(
        self, place: Path, patch: pytest.MonkeyPatch, seed: int, server: float = 0.0, by_clients: bool = False
    ) -> None:
        """Simulate a disk below `place`. `server`: seconds by which the server's clock is ahead; `by_clients`: clients
        set mtimes."""
        self.place, self.random = str(place), random.Random(seed)
        self.now, self.server, self.by_clients = 10_000.0, server, by_clients
        self.control = threading.Semaphore(0)
        self.processes: list[Process] = []
        self.held_up = HELD_UP
        self._failed: set[str] = set()
        self._patch(patch)

    def start(self, machine: Machine, work: Callable[[], None]) -> Process:
        """Start a process; every machine numbers its processes from 7."""
        number = 7 + sum(process.machine is machine for process in self.processes)
        self.processes.append(started := Process(self, machine, number, work))
        started.start()
        return started

    def go_on(self) -> bool:
        """Let one process run up to its next request. Return False if all processes have ended."""
        alive = [process for process in self.processes if not process.ended]
        if not alive:
            return False
        ready = [process for process in alive if process.wakes <= self.now or process.killed]
        if not ready:
            self.now = min(process.wakes for process in alive)
            return True
        next_process = self.random.choice(ready)
        self.now += self.random.expovariate(200.0)
        next_process.turn.release()
        self.control.acquire()
        return True

    def close(self) -> None:
        for process in self.processes:
            process.killed = True
        while self.go_on():
            pass

    # Faults and delays of requests

    def _simulated_path(self, path: Any) -> str | None:
        """Return the absolute path if a simulated process asks for a path on the disk, else None."""
        if process() is None or isinstance(path, int):
            return None
        text = os.path.normpath(os.fspath(path))
        return text if isinstance(text, str) and text.startswith(self.place) else None

    def _request(self, path: str) -> Machine:
        """Send a request; other processes run meanwhile, perhaps for a long time. Return the client's machine."""
        me = process()
        me.rest(self._delay() if self.random.random() < self.held_up else 0.0)
        if self.random.random() < STALE and path not in self._failed:
            self._failed.add(path)
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return me.machine

    def _delay(self) -> float:
        return self.random.choice((2.0, 15.0, 45.0, 100.0, 300.0)) * self.random.random()

    def _loses_reply(self) -> bool:
        return self.random.random() < REPEATED

    def _check_missing(self, machine: Machine, path: str) -> None:
        """Raise FileNotFoundError if the machine has cached that the name does not exist."""
        if machine.missing.get(path, 0.0) > self.now:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    def _cache_missing(self, machine: Machine, path: str) -> None:
        machine.missing[path] = self.now + CACHED * self.random.random()

    def _stamp(self, machine: Machine, path: str) -> None:
        """Set a file's mtime by the clock of the server, or of the client."""
        at = self.now + (machine.wall if self.by_clients else self.server)
        self._real.utime(path, (at, at))

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        names = ("listdir", "scandir", "stat", "lstat", "open", "link", "utime", "replace", "rename", "unlink",
                 "remove", "mkdir", "rmdir")  # fmt: skip
        self._real = SimpleNamespace(**{name: getattr(os, name) for name in names}, file=builtins.open)
        for name in names:
            patch.setattr(os, name, getattr(self, f"_{name}"))
        for module in (builtins, io):
            patch.setattr(module, "open", self._file)
        host, pid, alive = socket.gethostname, os.getpid, leases._process
        patch.setattr(socket, "gethostname", lambda: me.machine.name if (me := process()) else host())
        patch.setattr(os, "getpid", lambda: me.pid if (me := process()) else pid())
        patch.setattr(leases, "machine", lambda: me.machine.name if (me := process()) else "none")
        patch.setattr(leases, "_process", lambda pid: self._process_identity(pid) if process() else alive(pid))
        patch.setattr(leases, "_elapsed", self._elapsed)
        patch.setattr(leases, "_sleep", lambda seconds: me.rest(10 * seconds) if (me := process()) else None)
        patch.setattr(leases.Lease, "__del__", lambda lease: None)  # a killed process must not release its lease
        patch.setattr(leases, "_keep", lambda lease: None)
        patch.setattr(leases, "_last_tokens", _PerProcess())
        patch.setattr(worker, "time", SimpleNamespace(monotonic=self._elapsed))

    def _elapsed(self) -> float:
        me = process()
        return self.now + (me.machine.boot - me.machine.paused if me else 0.0)

    def _process_identity(self, pid: int) -> str:
        me = process()
        processes = [other for other in self.processes if other.machine is me.machine and other.pid == pid]
        return f"{pid} 1" if processes and not (processes[0].killed or processes[0].ended) else ""

    # The functions of `os` that send requests

    def _listdir(self, path: Any = ".") -> list[str]:
        if (own_path := self._simulated_path(path)) is None:
            return self._real.listdir(path)
        return self._names(self._request(own_path), own_path)

    def _names(self, machine: Machine, path: str) -> list[str]:
        until, names = machine.listings.get(path, (0.0, []))
        if until <= self.now:
            self._check_missing(machine, path)
            names = sorted(self._real.listdir(path))
            machine.listings[path] = self.now + CACHED * self.random.random(), names
        return list(names)

    def _scandir(self, path: Any = ".") -> Any:
        if (own_path := self._simulated_path(path)) is None:
            return self._real.scandir(path)
        return Listing(
            Entry(name, os.path.join(own_path, name)) for name in self._names(self._request(own_path), own_path)
        )

    def _stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        own_path = self._simulated_path(path) if dir_fd is None else None
        if own_path is None:
            return self._real.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        machine = self._request(own_path)
        self._check_missing(machine, own_path)
        try:
            status = self._real.stat(own_path)
        except FileNotFoundError:
            self._cache_missing(machine, own_path)
            raise
        until, cached = machine.attributes.get(own_path, (0.0, status))
        if until <= self.now or cached.st_ino != status.st_ino:
            machine.attributes[own_path] = self.now + CACHED * self.random.random(), status
            return status
        return cached

    def _lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        if dir_fd is not None or self._simulated_path(path) is None:
            return self._real.lstat(path, dir_fd=dir_fd)
        return self._stat(path)

    def _note_open(self, path: str, creates: bool) -> None:
        machine = self._request(path)
        if not creates:
            self._check_missing(machine, path)
        if creates or not self._exists(path):
            machine.forget(os.path.dirname(path)) if creates else self._cache_missing(machine, path)
        machine.attributes.pop(path, None)

    def _exists(self, path: str) -> bool:
        try:
            self._real.lstat(path)
        except OSError:
            return False
        return True

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None and (own_path := self._simulated_path(path)) is not None:
            self._note_open(own_path, bool(flags & os.O_CREAT))
        return self._real.open(path, flags, mode, dir_fd=dir_fd)

    def _file(self, path: Any, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
        if (own_path := self._simulated_path(path)) is not None:
            self._note_open(own_path, not mode.startswith("r"))
        return self._real.file(path, mode, *arguments, **settings)

    def _link(self, source: Any, target: Any) -> None:
        if (own_path := self._simulated_path(target)) is None:
            return self._real.link(source, target)
        machine = self._request(own_path)
        self._real.link(source, target)
        machine.forget(os.path.dirname(own_path))
        self._stamp(machine, own_path)
        if self._loses_reply():
            raise OSError(self.random.choice((errno.EEXIST, errno.ESTALE)), "done, but its reply was lost", own_path)

    def _utime(self, path: Any, *times: Any, **settings: Any) -> None:
        if (own_path := self._simulated_path(path)) is None or times or settings:
            return self._real.utime(path, *times, **settings)
        machine = self._request(own_path)
        self._check_missing(machine, own_path)
        self._stamp(machine, own_path)

    def _replace(self, source: Any, target: Any, **settings: Any) -> None:
        if (own_path := self._simulated_path(target)) is None:
            return self._real.replace(source, target, **settings)
        machine = self._request(own_path)
        self._real.replace(source, target)
        for changed_path in (own_path, os.path.normpath(source)):
            machine.forget(os.path.dirname(changed_path))
            machine.attributes.pop(changed_path, None)
        if self._loses_reply():
            raise FileNotFoundError(errno.ENOENT, "done, but its reply was lost", str(source))

    def _rename(self, source: Any, target: Any, **settings: Any) -> None:
        if self._simulated_path(target) is None:
            return self._real.rename(source, target, **settings)
        self._replace(source, target)

    def _change_directory(self, change: Callable[..., None], path: Any, *arguments: Any, **settings: Any) -> None:
        own_path = self._simulated_path(path) if settings.get("dir_fd") is None else None
        if own_path is None:
            return change(path, *arguments, **settings)
        machine = self._request(own_path)
        change(own_path, *arguments)
        machine.forget(os.path.dirname(own_path))
        machine.attributes.pop(own_path, None)

    def _unlink(self, path: Any, **settings: Any) -> None:
        self._change_directory(self._real.unlink, path, **settings)

    def _remove(self, path: Any, **settings: Any) -> None:
        self._change_directory(self._real.unlink, path, **settings)

    def _mkdir(self, path: Any, *arguments: Any, **settings: Any) -> None:
        self._change_directory(self._real.mkdir, path, *arguments, **settings)

    def _rmdir(self, path: Any, **settings: Any) -> None:
        self._change_directory(self._real.rmdir, path, **settings)


class _PerProcess(dict[Any, Any]):
    """A dictionary with separate entries for each simulated process."""

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return super().setdefault((process(), key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((process(), key), value)
