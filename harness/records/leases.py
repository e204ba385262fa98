"""Leases: the right to write a directory that several machines may share, without locks of its file system.

    DIRECTORY/.lease/EPOCH     who holds or held the lease; the file's mtime is the holder's last sign of life

An epoch begins when its file is made by `link`, which a file system grants to one process alone, whatever a stale
listing of the directory shows to others. Files of epochs are never deleted, since a name that is free again could be
taken twice. The holder touches its file every BEAT seconds. A lease may be followed by the next epoch once it is
released, once its process is known to have ended, which only its own machine knows, or once the file is older than
EXPIRES. Age is the difference of two mtimes, of this file and of one just written beside it, so no clock but that of
the shared disk counts.

A holder fences itself: LATE seconds after its last touch, well before others may follow, it regards the lease as lost
unless it obtains the next epoch itself, as anyone would. So a machine that slept continues if nobody followed it. A
holder that is on time looks for the next epoch too, at each touch and each fence, since others may have misjudged it.
Where it cannot be told whether a holder lives, it counts as alive until its file is older than EXPIRES.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import socket
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from guidebench.harness.errors import Notice, Stopped, UserError

FOLDER = ".lease"
BEAT = 10.0
"""Seconds between two signs of life of a holder (choice: small beside LATE)."""
LATE = 40.0
"""Seconds after its last sign of life at which a holder regards its lease as lost (choice: leaves a write that began
before 20 seconds to arrive)."""
EXPIRES = 60.0
"""Age in seconds at which a lease may be followed by the next epoch (choice: an NFS client's longest cache of a
directory, acdirmax, is as long)."""
HELD, OVER = b"held", b"over"
"""First bytes of a lease's file; a release replaces the one by the other in place."""


class Held(UserError):
    """Another process holds a lease."""


class Fenced(Stopped):
    """A lease was lost: another process may hold it by now, so nothing more is written."""


class Holder(NamedTuple):
    """What the file of an epoch says of its holder."""

    machine: str = ""
    process: str = ""
    host: str = ""
    pid: int = 0
    attempt: int = 0
    """The number of the attempt directory in which this epoch writes; 0 for the directory itself."""

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}" + (f" on {self.host}" if self.machine != machine() else "")


class Lease:
    """The right to write a directory, held by one process."""

    def __init__(
        self,
        directory: Path,
        what: str,
        advice: str = "wait for it, stop it, or choose another directory with output=…",
    ) -> None:
        """`what`: what the directory holds, such as "run"; `advice`: what to do if another process has the lease."""
        self._directory, self._what, self._advice = directory, what, advice
        self._folder = directory / FOLDER
        self._epoch, self._attempt = 0, 0
        self._sign = 0.0
        self._beating = threading.Lock()
        self.lost = False
        """Whether the lease was held and is so no longer, as far as is known without asking the disk."""

    @property
    def attempt(self) -> int:
        """Number of the attempt directory in which the holder writes; 0 for the directory itself. It is the epoch if
        the holder before may still be alive, and else that of the holder before, who writes nothing more."""
        return self._attempt

    def acquire(self, patience: float = 0.0, tell: Callable[[str], None] | None = None) -> None:
        """Take the lease, waiting at most `patience` seconds. Raise Held if another process has it.

        If `tell` is given, a holder that only its silence can prove dead, such as one of another machine or of this one
        before its restart, is waited for until its lease expires or it gives a sign of life. `tell` is told so once.
        """
        began, first, told = time.monotonic(), None, False
        while (found := self._try()) is not None:
            first = first or found
            waited = time.monotonic() - began
            if waited >= patience:
                silent = found.touched is not None and found.touched == first.touched and waited < EXPIRES + BEAT
                by = f"{found.holder}{found.told and ', '}{found.told}"
                if tell is None or not silent:
                    raise Held(
                        f"{self._what} {self._directory} is being written by another process ({by}); {self._advice}"
                    )
                if not told:
                    tell(f"{self._what} {self._directory} was last written by another process ({by}); waiting for that")
                told = True
            time.sleep(0.1)
        _keep(self)

    def release(self) -> None:
        """Let others follow at once. No effect if the lease is not held."""
        with self._beating:
            if self._epoch and not self.lost:
                with contextlib.suppress(OSError):  # it expires
                    _mark_over(self._folder / str(self._epoch))
            self._epoch = 0

    def __del__(self) -> None:
        self.release()

    def held(self) -> bool:
        """Return whether the lease is held still. A holder that is late asks the disk."""
        if not self._epoch or self.lost:
            return False
        return _elapsed() - self._sign < LATE or self._renew()

    def fence(self) -> None:
        """Raise Fenced if the lease is not held any more. Call it before what must not be written twice."""
        if self.held():
            with self._beating:
                self._look_ahead()
        if not self._epoch or self.lost:
            raise Fenced(f"the {self._what} {self._directory} was taken over by another process")

    def beat(self) -> None:
        """Give a sign of life, or notice that the lease is lost."""
        if self.held():
            began = _elapsed()
            with self._beating, contextlib.suppress(OSError):  # a disk that hangs: the next beat tries again
                if self._epoch:
                    _touch(self._folder / str(self._epoch))
                    self._sign = max(self._sign, began)
                    self._look_ahead()

    def _look_ahead(self) -> None:
        """Notice that the lease is lost if another process has the next epoch. Opening its file asks the disk, also
        where a listing would be old."""
        if self._epoch and not self.lost:
            try:
                with open(self._folder / str(self._epoch + 1), "rb"):
                    self.lost = True
            except PermissionError:  # it exists, and is another user's
                self.lost = True
            except OSError:
                pass

    def _try(self) -> _Found | None:
        """Take the next epoch, or return the standing of the newest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = max(_epochs(self._folder), default=0)
        while True:
            attempt = 0
            if newest:
                found = _look(self._folder, newest)
                if found.alive:
                    return found
                attempt = found.holder.attempt if found.ended else newest + 1
            began = _elapsed()
            if _link(self._folder, newest + 1, attempt):
                self._epoch, self._attempt, self._sign, self.lost = newest + 1, attempt, began, False
                return None
            newest += 1  # another process was faster, or the listing was stale: judge that epoch

    def _renew(self) -> bool:
        """Take the next epoch after having been late. Return whether that succeeded; if not, the lease is lost."""
        with self._beating:
            began = _elapsed()
            if not self._epoch or self.lost:
                return False
            try:
                self.lost = not _link(self._folder, self._epoch + 1, self._attempt)
            except OSError:
                self.lost = True
            if not self.lost:
                with contextlib.suppress(OSError):
                    _mark_over(self._folder / str(self._epoch))
                self._epoch, self._sign = self._epoch + 1, began
            return not self.lost


class _Found(NamedTuple):
    """The standing of an epoch."""

    holder: Holder
    alive: bool
    """Whether nobody may follow it yet."""
    ended: bool
    """Whether its holder is known to write nothing more."""
    touched: float | None = None
    """The mtime of its file if the holder is judged by its age, else None."""
    told: str = ""
    """Why it counts as alive, if not because its process was seen."""


def warn(text: str) -> None:
    """Tell a notice, as the `tell` of `Lease.acquire`."""
    warnings.warn(Notice(text), stacklevel=3)


def holder(directory: Path) -> Holder | None:
    """Return who holds the lease of a directory, or None if nobody does."""
    folder = directory / FOLDER
    newest = max(_epochs(folder), default=0)
    found = _look(folder, newest) if newest else None
    return found.holder if found and found.alive else None


def _look(folder: Path, epoch: int) -> _Found:
    path = folder / str(epoch)
    try:
        # Opening it makes an NFS client ask for the present mtime.
        with open(path, "rb") as file:
            text, touched = file.read(), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:  # deleted by hand
        return _Found(Holder(), False, False)
    except OSError as error:
        return _Found(Holder(), True, False, told=f"whose lease {path} cannot be read: {error.strerror}")
    found = _read(text)
    if text.startswith(OVER):
        return _Found(found, False, True)
    if found.machine == machine() and (seen := _process(found.pid)) is not None:
        ended = seen != found.process
        return _Found(found, not ended, ended)
    age = _now(folder) - touched
    told = f"last sign of life {max(0.0, age):.0f} s ago, after {EXPIRES:.0f} s without one its lease expires"
    return _Found(found, age < EXPIRES, False, touched, told)


def _read(text: bytes) -> Holder:
    try:
        content = json.loads(text[len(HELD) :])
        where, process, host = (str(content[name])[:200] for name in ("machine", "process", "host"))
        return Holder(where, process, host, int(content["pid"]), int(content["attempt"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Holder()


def _link(folder: Path, epoch: int, attempt: int) -> bool:
    """Create the file of an epoch. Return False if it exists."""
    beside = _beside(folder)
    mine = Holder(machine(), _process(os.getpid()) or "", socket.gethostname(), os.getpid(), attempt)
    beside.write_bytes(HELD + json.dumps(mine._asdict()).encode())
    try:
        os.link(beside, folder / str(epoch))
        return True
    except FileExistsError:
        return os.stat(beside).st_nlink == 2  # a repeated request may be told that its own link exists
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        return _create(folder / str(epoch), beside.read_bytes())  # a file system without links
    finally:
        beside.unlink(missing_ok=True)


def _create(path: Path, content: bytes) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        os.write(handle, content)
    finally:
        os.close(handle)
    return True


def _epochs(folder: Path) -> list[int]:
    """Return the epochs that a listing shows; on a network disk it may be old, and show too few."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    except OSError:
        return []


def _touch(path: Path) -> None:
    """Set a file's mtime to the present time of its disk."""
    os.utime(path)


def _now(folder: Path) -> float:
    """Return the present time of a directory's disk; that of this machine if it cannot be written."""
    beside = _beside(folder)
    try:
        beside.write_bytes(b"now")
        _touch(beside)
        return os.stat(beside).st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _mark_over(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(handle, OVER, 0)
    finally:
        os.close(handle)


def _beside(folder: Path) -> Path:
    """Return a name that no other process and no other thread uses."""
    return folder / f".{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"


def _elapsed() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@functools.cache
def machine() -> str:
    """Return what identifies the processes that this one can see: the boot of the machine and the namespace of process
    ids, or where these are not to be had the host's name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _process(pid: int) -> str | None:
    """Return what identifies a process of this machine, also after its id was given to another; "" if it ended, None if
    that cannot be told, as where /proc hides the processes of other users (hidepid)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return _asked(pid)
    state, *rest = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else f"{pid} {rest[18]}"


def _asked(pid: int) -> str | None:
    """Return what `_process` does, of a process that /proc does not show."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except OSError:
        return None
    return None if Path("/proc/self").exists() else str(pid)


_kept: weakref.WeakSet[Lease] = weakref.WeakSet()
_keeper: list[threading.Thread] = []


def _keep(lease: Lease) -> None:
    """Let a thread of this process give the lease's signs of life."""
    _kept.add(lease)
    if not _keeper or not _keeper[0].is_alive():
        _keeper[:] = [threading.Thread(target=_keep_all, name="leases", daemon=True)]
        _keeper[0].start()


def _keep_all() -> None:
    while True:
        time.sleep(BEAT)
        for lease in list(_kept):
            lease.beat()
