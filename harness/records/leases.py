"""Leases: the right to write a directory that several machines may share, without locks of its file system.

    DIRECTORY/.lease/EPOCH     who holds or held the lease; each sign of life of the holder changes the file's mtime

An epoch begins when its file is made by `link`, which a file system grants to one process alone, whatever a stale
listing of the directory shows to others. Files of epochs are never deleted, since a name that is free again could be
taken twice. The holder touches its file every BEAT seconds. A lease may be followed by the next epoch once it is
released, once its process is known to have ended, which only its own machine knows, or once the follower itself has
seen the file unchanged for EXPIRES seconds. No clock but the follower's own measures this time: an mtime may be set by
the disk's server or by the holder's machine, whose clocks may be hours off, so it shows a change and no age.

A holder fences itself: LATE seconds after its last touch, well before others may follow, it regards the lease as lost
unless it obtains the next epoch itself, as anyone would. So a machine that slept continues if nobody followed it. A
holder that is on time looks for the next epoch too, at each touch and each fence, since a virtual machine that was
paused knows nothing of the time that passed.
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
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from guidebench.harness.errors import Notice, Stopped, UserError
from guidebench.harness.records.files import open_regular, refresh, retry_once
from guidebench.harness.texts import one_line

FOLDER = ".lease"
BEAT = 10.0
"""Seconds between two signs of life of a holder (choice: small beside LATE)."""
LATE = 40.0
"""Seconds after its last sign of life at which a holder regards its lease as lost (choice: leaves a write that began
before 20 seconds to arrive)."""
EXPIRES = 60.0
"""Seconds for which a process must have seen no sign of life of a holder before it may follow (choice: an NFS client's
longest cache of a directory, acdirmax, is as long)."""
POLL = 0.1
"""Seconds between two looks at a lease that is waited for."""
HELD, OVER = b"held", b"over"
"""First bytes of a lease's file; a release replaces the one by the other in place."""
LONGEST = 4_096
"""Most bytes of a lease's file, which may be a stranger's where a tracker follows a study."""
MOST = 2**31
"""Largest number of an attempt that is believed."""


class LeaseHeld(UserError):
    """Another process holds a lease."""


class Fenced(Stopped):
    """A lease was lost: another process may hold it by now, so nothing more is written."""


class Holder(NamedTuple):
    """The holder of an epoch, as its file describes it."""

    machine: str = ""
    process: str = ""
    host: str = ""
    pid: int = 0
    attempt: int = 0
    """The number of the attempt directory in which this epoch writes; 0 for the directory itself."""
    key: str = ""
    """What distinguishes this acquisition from all others."""

    def __str__(self) -> str:
        return f"pid {self.pid or 'unknown'}" + (f" on {self.host}" if self.machine != machine() else "")


class Lease:
    """The right to write a directory, held by one process."""

    def __init__(
        self,
        directory: Path,
        noun: str,
        advice: str = "wait for it, stop it, or choose another directory with output=…",
    ) -> None:
        """`noun`: what the directory holds, such as "run"; `advice`: what to do if another process has the lease."""
        self._directory, self._noun, self._advice = directory, noun, advice
        self._folder = directory / FOLDER
        self._epoch, self._attempt = 0, 0
        self._key = ""
        self._sign = 0.0
        self._beating = threading.Lock()
        self.lost = False
        """Whether the lease was held and is so no longer, as far as is known without asking the disk."""

    @property
    def attempt(self) -> int:
        """Number of the attempt directory in which the holder writes; 0 for the directory itself. It is the epoch if
        the holder before may still be alive, and else that of the holder before, who writes nothing more."""
        return self._attempt

    def acquire(
        self, patience: float = 0.0, tell: Callable[[str], None] | None = None, *, abandoned: bool = False
    ) -> None:
        """Take the lease, waiting at most `patience` seconds. Raise LeaseHeld if another process has it.

        A holder that only its silence can prove dead, such as one of another machine or of this one before its restart,
        is waited for until it was silent for EXPIRES seconds or gives a sign of life, if its file seems to be as old or
        `tell` is given, which is told so once. `abandoned`: a scheduler says that the holder has ended, so the age of
        its file, by clocks that may be wrong, suffices as a proof.
        """
        began, first, waits = _elapsed(), None, False
        self._key, self._sign = uuid.uuid4().hex, began
        while (standing := retry_once(self._try, abandoned)) is not None:
            first = first or standing
            if _elapsed() - began >= patience:
                silent = standing.token is not None and standing.token == first.token
                if not (silent and (waits or tell or self._age(standing) >= EXPIRES)):
                    raise LeaseHeld(
                        f"{self._noun} {self._directory} is being written by another process "
                        f"({self._describe(standing)}); {self._advice}"
                    )
                if tell and not waits:
                    tell(
                        f"{self._noun} {self._directory} was last written by another process "
                        f"({self._describe(standing)}); waiting for that"
                    )
                waits = True
            _sleep(POLL)
        refresh(self._directory)  # what the holder before wrote is seen
        _keep(self)

    def _describe(self, standing: _Standing) -> str:
        """Describe the holder of the lease and, unless its process was seen, why it counts as alive."""
        if standing.token is None:
            return f"{standing.holder}{standing.fault and ', '}{standing.fault}"
        age = max(0.0, self._age(standing))
        sign = f"last sign of life {age:.0f} s ago; a process that sees none for {EXPIRES:.0f} s may take over"
        return f"{standing.holder}, {sign}"

    def _age(self, standing: _Standing) -> float:
        """Return the seconds since a holder's last sign of life, an estimate where clocks differ."""
        return _now(self._folder) - standing.touched

    def release(self) -> None:
        """Let others follow at once. No effect if the lease is not held."""
        with self._beating:
            if self._epoch and not self.lost:
                with contextlib.suppress(OSError):  # it expires
                    _mark_over(self._folder / str(self._epoch))
            self._epoch = 0

    def __del__(self) -> None:
        self.release()

    def follower(self) -> Path:
        """Return the file that exists once another process has followed the holder."""
        return self._folder / str(self._epoch + 1)

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
            raise Fenced(f"the {self._noun} {self._directory} was taken over by another process")

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
        """Notice that the lease is lost if another process has the next epoch."""
        if self._epoch and not self.lost:
            refresh(self._folder)
            try:
                with open_regular(self._folder / str(self._epoch + 1)):
                    self.lost = True
            except PermissionError:  # it exists, and is another user's
                self.lost = True
            except OSError:
                pass

    def _try(self, abandoned: bool = False) -> _Standing | None:
        """Take the next epoch and return None, or return the standing of the newest if its holder may be alive."""
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = max(_epochs(self._folder), default=0)
        while True:
            attempt = 0
            if newest:
                standing = _look(self._folder, newest)
                if (
                    standing.alive and standing.holder.key == self._key
                ):  # an earlier link was made, and told as an error
                    self._epoch, self._attempt, self.lost = newest, standing.holder.attempt, False
                    return None
                if standing.alive and not (abandoned and standing.token and self._age(standing) >= EXPIRES):
                    return standing
                attempt = standing.holder.attempt if standing.ended else newest + 1
            began = _elapsed()
            if _link(self._folder, newest + 1, attempt, self._key):
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
                self.lost = not retry_once(_link, self._folder, self._epoch + 1, self._attempt, self._key)
            except OSError:
                self.lost = True
            if not self.lost:
                with contextlib.suppress(OSError):
                    _mark_over(self._folder / str(self._epoch))
                self._epoch, self._sign = self._epoch + 1, began
            return not self.lost


class _Standing(NamedTuple):
    """The standing of an epoch."""

    holder: Holder
    alive: bool
    """Whether nobody may follow it yet."""
    ended: bool
    """Whether its holder is known to write nothing more."""
    token: str | None = None
    """A text that changes with the holder's signs of life, if it is judged by these; None if it is not."""
    touched: float = 0.0
    """The mtime of its file."""
    fault: str = ""
    """Why its file cannot be read; "" if it can."""


def warn(text: str) -> None:
    """Issue a message as a Notice; for the parameter `tell` of `Lease.acquire`."""
    warnings.warn(Notice(text), stacklevel=3)


def holder(directory: Path) -> Holder | None:
    """Return who holds the lease of a directory, or None if nobody does. A process that cannot be seen from here counts
    as ended if its file is older than EXPIRES, which is an estimate where clocks differ, or if this process has seen
    the file unchanged for as long."""
    folder = directory / FOLDER
    newest = max(_epochs(folder), default=0)
    standing = _look(folder, newest) if newest else None
    if standing is None or not standing.alive:
        return None
    return (
        None if standing.token and standing.touched and _now(folder) - standing.touched >= EXPIRES else standing.holder
    )


def all_over(directories: Iterable[Path]) -> bool:
    """Return whether nobody holds the lease of any of these directories. A holder that seems to have been silent for
    EXPIRES, by clocks that may be wrong, is watched for as long before it counts as dead."""
    places, tokens = list(directories), dict[Path, str]()
    while True:
        watched = False
        for folder in (place / FOLDER for place in places if (place / FOLDER).is_dir()):
            refresh(folder)
            newest = max(_epochs(folder), default=0)
            standing = _look(folder, newest) if newest else None
            if standing is None or not standing.alive:
                continue
            silent = standing.token is not None and _now(folder) - standing.touched >= EXPIRES
            if not silent or tokens.setdefault(folder, str(standing.token)) != standing.token:
                return False
            watched = True
        if not watched:
            return True
        _sleep(1.0)


def next_attempt(directory: Path) -> int:
    """Return the number of the attempt directory in which the next holder will write; 0 for the directory itself."""
    folder = directory / FOLDER
    newest = max(_epochs(folder), default=0)
    if not newest:
        return 0
    standing = _look(folder, newest)
    return newest + 1 if standing.token else standing.holder.attempt


def _look(folder: Path, epoch: int) -> _Standing:
    path = folder / str(epoch)
    try:
        try:
            text, status = _content(path)
        except FileNotFoundError:  # another machine made it, and a name that was missing is remembered here
            refresh(folder)
            text, status = _content(path)
    except FileNotFoundError:  # deleted by hand
        return _Standing(Holder(), _unchanged(path, "") < EXPIRES, False, "unseen")
    except OSError as error:
        return _Standing(Holder(), True, False, fault=f"whose lease {path} cannot be read: {error.strerror}")
    writer = _read(text)
    if text.startswith(OVER):
        return _Standing(writer, False, True)
    if writer.machine == machine() and (process := _process(writer.pid)) is not None:
        ended = process != writer.process
        return _Standing(writer, not ended, ended)
    token = f"{epoch} {status.st_mtime_ns}"
    return _Standing(writer, _unchanged(path, token) < EXPIRES, False, token, status.st_mtime)


def _content(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content and the status of a file; raise OSError if it is no regular file, or has more than `LONGEST`
    bytes. Opening it makes an NFS client ask for the present ones."""
    with open_regular(path) as file:
        text, status = file.read(LONGEST + 1), os.fstat(file.fileno())
    if len(text) > LONGEST:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, and a lease at most {LONGEST:,}", str(path))
    return text, status


def _unchanged(path: Path, token: str) -> float:
    """Return for how many seconds this process has seen the same token of a lease file."""
    now = _elapsed()
    before, since = _last_tokens.setdefault(path, (token, now))
    if before != token:
        _last_tokens[path] = token, now
        return 0.0
    return now - since


def _read(text: bytes) -> Holder:
    """Return the holder that a file of at most `LONGEST` bytes describes; one of whom nothing is known if anybody else
    has written it, who may own the study."""
    try:
        content = json.loads(text[len(HELD) :])
        machine_id, process, host = (one_line(str(content[name])[:200]) for name in ("machine", "process", "host"))
        pid, attempt, key = int(content["pid"]), int(content["attempt"]), one_line(str(content.get("key", ""))[:200])
        fits = 0 <= attempt <= MOST
        return Holder(machine_id, process, host, pid, attempt, key) if fits else Holder()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return Holder()


def _link(folder: Path, epoch: int, attempt: int, key: str) -> bool:
    """Create the file of an epoch. Return False if it exists and another acquisition made it."""
    temporary = _temporary_path(folder)
    mine = Holder(machine(), _process(os.getpid()) or "", socket.gethostname(), os.getpid(), attempt, key)
    content = HELD + json.dumps(mine._asdict()).encode()
    try:
        temporary.write_bytes(content)
        os.link(temporary, folder / str(epoch))
        return True
    except FileExistsError:  # a request that was repeated, since its reply was lost, is told that its own link exists
        return _look(folder, epoch).holder.key == key
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        return _create(folder / str(epoch), content)  # a file system without links
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
    """Return the present time by the clock that dates files of a directory, in seconds since the epoch; this machine's
    time if the directory cannot be written."""
    temporary = _temporary_path(folder)
    try:
        temporary.write_bytes(b"now")
        _touch(temporary)
        return os.stat(temporary).st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _mark_over(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.pwrite(handle, OVER, 0)
    finally:
        os.close(handle)


def _temporary_path(folder: Path) -> Path:
    """Return a name that nobody else uses, nor has used."""
    return folder / f".{uuid.uuid4().hex}"


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def _elapsed() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@functools.cache
def machine() -> str:
    """Return a text that identifies the processes that this one can see: the machine's boot id and the namespace of
    process ids, or the host's name where these are unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _process(pid: int) -> str | None:
    """Return a text that identifies a process of this machine even if its id is reused (id and start time); "" if it
    has ended, None if that is unknown, as where /proc hides the processes of other users (hidepid)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return _process_by_signal(pid)
    state, *rest = stat.rpartition(")")[2].split()
    ended = state in "ZX" and int(rest[16]) < 2  # a process whose first thread has ended may have others that write
    return "" if ended else f"{pid} {rest[18]}"


def _process_by_signal(pid: int) -> str | None:
    """Return the result of `_process` for a process that /proc does not show, by sending it signal 0."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except OSError:
        return None
    return None if Path("/proc/self").exists() else str(pid)


_last_tokens: dict[Path, tuple[str, float]] = {}
"""File of an epoch -> the token that this process last saw, and since when (`_elapsed`)."""
_beating: weakref.WeakSet[Lease] = weakref.WeakSet()
_keeper: list[threading.Thread] = []


def _keep(lease: Lease) -> None:
    """Have a thread of this process touch the file of a lease every BEAT seconds, until the lease is released."""
    _beating.add(lease)
    if not _keeper or not _keeper[0].is_alive():
        _keeper[:] = [threading.Thread(target=_keep_all, name="leases", daemon=True)]
        _keeper[0].start()


def _keep_all() -> None:
    while True:
        time.sleep(BEAT)
        for lease in list(_beating):
            lease.beat()
