"""Separate processes for reading untrusted files, with limits on memory and time.

*Outside* is every file that the command did not write itself in this study: checkpoints, `.npy`, HDF5, headers of
safetensors, JSON of models and tokenizers, submissions, cassettes, galleries, other people's studies. Such files are
parsed here, by `read`; `guidebench.harness.outside` bounds what they may declare.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from guidebench.harness import fork_server
from guidebench.harness.companions import ServingProcess, end, main
from guidebench.harness.errors import UserError, of_system
from guidebench.harness.heartbeats import Pulse

__all__ = ["Caller", "call", "close", "main", "read"]

MEMORY = 3 * 2**30
"""Default limit on the resident memory, in bytes, of a process that reads untrusted files. (The address space cannot be
limited instead, since allocators reserve gigabytes that they never use.)"""
MEMORY_PER_BYTE = 4
"""Bytes of memory for each byte of the files that `read` reads, where that is more than `MEMORY`."""
SECONDS, PER_GB = 60.0, 10.0
"""Time limit of `read`: seconds, and seconds for each 10^9 bytes of the files. Time in which the process waits for a
processor, on a machine with much other work, does not count, up to `WAITING` of all time."""
WAITING = 0.9
EVERY = 0.05
"""Seconds between two checks of a process's memory."""
DEEP = 10_000
"""Python's limit on recursion while an answer is pickled."""
LONGEST_GAP = 1.0
"""Seconds that count at most between two checks: this process may have been stopped itself."""
GRACE = 10
"""Seconds beyond its time limit after which a process ends itself, in case its parent was killed."""

Params = ParamSpec("Params")
Answer = TypeVar("Answer")


class Caller(ServingProcess):
    """Calls module-level functions in a separate process with a memory limit, and a time limit per call.

    Exceptions, crashes of libraries and exceeded limits become UserErrors. A failed process is replaced. If it had
    served earlier calls, which may have caused the failure, the call is repeated once.
    """

    module: ClassVar[str] = __name__

    def __init__(self, memory: int = MEMORY) -> None:
        super().__init__(_call, session=True)
        self._memory = memory
        self.initial_memory = 0
        """Resident memory, in bytes, with which the process began; a fork has that of its server."""
        self._was_used = False
        self._one_at_a_time = threading.Lock()
        self._owner = os.getpid()

    def __call__(
        self,
        description: str,
        seconds: float,
        function: Callable[Params, Answer],
        /,
        *args: Params.args,
        **named: Params.kwargs,
    ) -> Answer:
        """Return the result of `function` and repeat its warnings. Its UserErrors are raised unchanged, as are OSErrors
        for a full disk or a path without write permission. Other failures become UserErrors whose message begins with
        `description`, such as `FILE: reading its rows`. Within such a process, `function` is called directly."""
        if _INSIDE.is_set():
            return function(*args, **named)
        return self._repeated(description, seconds, self._memory, function, args, named)

    def read_files(
        self,
        description: str,
        files: Path | Iterable[Path],
        function: Callable[Params, Answer],
        /,
        *args: Params.args,
        **named: Params.kwargs,
    ) -> Answer:
        """Return the result of a function that parses outside files, within limits on time and memory that grow with
        the bytes of the files; raise as `__call__` does."""
        bytes_ = total_bytes([files] if isinstance(files, Path) else files)
        memory = max(self._memory, MEMORY_PER_BYTE * bytes_)
        return self._repeated(description, SECONDS + PER_GB * bytes_ / 1e9, memory, function, args, named)

    def _start(self, pulse: Pulse | None = None) -> Connection:
        connection = super()._start(pulse)
        self.initial_memory = _resident_bytes(self.pid)
        return connection

    def _repeated(
        self,
        description: str,
        seconds: float,
        memory: int,
        function: Callable[..., Answer],
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Answer:
        """Return the result of a call; if a process that had served earlier calls ends, repeat the call once in a new
        one."""
        if _INSIDE.is_set():
            return function(*args, **named)
        with self._one_at_a_time:
            if self._owner != os.getpid():  # a fork must not use its parent's connection
                self._process, self._connection, self._end, self._owner = None, None, bool, os.getpid()
            was_used = self._was_used and self._connection is not None
            try:
                answer, remarks = self._exchange(description, seconds, memory, function, args, named)
            except Broken:
                if not was_used:
                    raise
                answer, remarks = self._exchange(description, seconds, memory, function, args, named)
        for kind, remark in remarks:
            warnings.warn(remark, kind, stacklevel=3)
        if isinstance(answer, _Raised):
            raise answer.error
        return answer  # type: ignore[no-any-return]

    def _exchange(
        self, description: str, seconds: float, memory: int, *request: Any
    ) -> tuple[Any, list[tuple[type[Warning], str]]]:
        connection = self.begun()
        assert self._process is not None
        with _Watch(self._process, description, seconds, self.initial_memory + memory, memory) as watch:
            try:
                connection.send((os.getcwd(), description, seconds, *request))  # so that relative paths resolve equally
                answer, remarks = connection.recv()
                if (late := watch.late()) is not None:
                    raise late
            except RecursionError:  # raised while pickling untrusted values
                raise UserError(f"{description} fails: its values are nested too deep") from None
            except (EOFError, OSError):
                code = self.ended()
                raise watch.verdict or Broken(f"{description} made its process end with exit code {code}") from None
            except BaseException:  # also Ctrl-C: a late answer would be taken for that of the next call
                self.close()
                raise
        self._was_used = True
        return answer, remarks


class _Watch:
    """Kills a process that takes too long or too much memory, while this process sends a request to it, waits, or
    receives its answer; a context manager. Sending and receiving end then, even if the process is stopped."""

    def __init__(self, process: fork_server.Process, description: str, seconds: float, most: int, memory: int) -> None:
        """`most`: resident memory in bytes above which the process is killed; `memory`: what the message says of it."""
        self._process, self._description, self._seconds, self._most, self._memory = (
            process,
            description,
            seconds,
            most,
            memory,
        )
        self.verdict: UserError | None = None
        """Why the process was killed."""
        self._elapsed, self._last = 0.0, time.monotonic()
        self._waited = _waiting_seconds(process.pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def late(self) -> UserError | None:
        """Return the error for a time limit that is exceeded, else None."""
        if self._elapsed + min(time.monotonic() - self._last, LONGEST_GAP) <= self._seconds:
            return None
        return UserError(f"{self._description} takes longer than {self._seconds:g} s")

    def _run(self) -> None:
        while not self._done.wait(min(EVERY, max(0.001, self._seconds - self._elapsed))):
            now, waited = time.monotonic(), _waiting_seconds(self._process.pid)
            gap = min(now - self._last, LONGEST_GAP)
            self._elapsed += max(gap - (waited - self._waited), (1 - WAITING) * gap)
            self._last, self._waited = now, waited
            self.verdict = self.late()
            if self.verdict is None and _resident_bytes(self._process.pid) > self._most:
                self.verdict = Broken(f"{self._description} takes more than {self._memory >> 20} MiB of memory")
            if self.verdict is not None:
                end(self._process, session=True)
                return


def _waiting_seconds(pid: int) -> float:
    """Return the seconds in which the main thread of a process was ready to run and had no processor, so far; 0 where
    the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Broken(UserError):
    """The process ended or was killed."""


class _Raised:
    """An exception raised by a function, sent as an answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def call(
    description: str, seconds: float, function: Callable[Params, Answer], /, *args: Params.args, **named: Params.kwargs
) -> Answer:
    """Return the result of `function`, called by the shared `Caller` of this process; raise as `Caller.__call__`
    does."""
    return _SHARED(description, seconds, function, *args, **named)


def read(
    description: str,
    files: Path | Iterable[Path],
    function: Callable[Params, Answer],
    /,
    *args: Params.args,
    **named: Params.kwargs,
) -> Answer:
    """Return the result of a function that parses outside files, called by the shared `Caller` of this process, within
    limits on time and memory that grow with the bytes of the files; raise as `Caller.__call__` does."""
    return _SHARED.read_files(description, files, function, *args, **named)


def total_bytes(files: Iterable[Path]) -> int:
    """Return the bytes of files; those that are missing count 0. Raise UserError for a FIFO, a socket or a device."""
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise UserError(f"{file} is a FIFO, a socket or a device, and no regular file; restore it")
            total += status.st_size
    return total


def close() -> None:
    """End the shared process. The next `call` starts one anew, with the plug-ins that are installed then."""
    _SHARED.close()


def requests(connection: Connection) -> Iterator[Any]:
    """Yield the requests that arrive on `connection`, in the separate process, until it closes. Ctrl-C is ignored,
    since the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        yield request


def _call(connection: Connection) -> None:
    """Serve the requests of a `Caller`."""
    import resource

    _INSIDE.set()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # an aborting library could print text chosen by an attacker
        os.dup2(silent, stream)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for place, description, seconds, function, args, named in requests(connection):
        os.chdir(place)
        signal.alarm(int(seconds / (1 - WAITING)) + GRACE)
        answer: Any
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = function(*args, **named)
            except UserError as error:
                answer = _Raised(UserError(str(error)))
            except Exception as error:  # untrusted bytes may raise anything
                answer = _Raised(
                    error if isinstance(error, OSError) and of_system(error) else _as_user_error(description, error)
                )
        signal.alarm(0)
        remarks = [
            (warning.category, str(warning.message)) for warning in caught if issubclass(warning.category, UserWarning)
        ]
        connection.send_bytes(_pickled(description, answer, remarks))


def _pickled(description: str, answer: Any, remarks: Sequence[tuple[type[Warning], str]]) -> memoryview:
    """Return an answer and its warnings as bytes; an error in its place if it is nested too deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEP)  # a JSON parser admits nearly as many levels as the usual limit
    try:
        return ForkingPickler.dumps((answer, remarks))
    except RecursionError:
        return ForkingPickler.dumps(
            (_Raised(UserError(f"{description} fails: its values are nested too deep")), remarks)
        )
    finally:
        sys.setrecursionlimit(limit)


def _as_user_error(description: str, error: Exception) -> UserError:
    if isinstance(error, MemoryError):
        return UserError(f"{description} takes too much memory")
    words = "".join(letter if letter.isprintable() else "?" for letter in str(error)[:200])
    return UserError(f"{description} fails ({type(error).__name__}: {words})")


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if it cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


_SHARED = Caller()
_INSIDE = threading.Event()
"""Set within the separate process of a `Caller`."""
