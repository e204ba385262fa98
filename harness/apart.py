"""Processes of their own for what strangers' files may make too much of: each can be ended at any moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from guidebench.harness.errors import UserError, of_system

MEMORY = 3 * 2**30
"""Bytes that a process which reads strangers' files may hold, unless its maker says otherwise. (Its address space is no
measure: allocators reserve gigabytes that they never touch.)"""
EVERY = 0.05
"""Seconds between two looks at what a process holds."""
GRACE = 10
"""Seconds after which a process ends by itself that has outlived its time, as where whoever watched it was killed."""

_SAFE = "PYTHONSAFEPATH"
_STARTING = threading.Lock()
_BEGIN = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
connection.recv()(connection)
"""

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Apart:
    """The process, begun when it is first asked and anew after `close`; a context manager.

    It imports what this process would. Neither the working directory is searched for modules, where a stranger's study
    may lie, nor is the script imported that this process runs, which may have no `if __name__ == "__main__"`.
    """

    def __init__(self, serve: Callable[[Connection], None]) -> None:
        """`serve`, of a module's top level, answers what comes over its connection (see `asked`)."""
        self._serve = serve
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._end: Callable[[], object] = bool  # nothing to end yet

    @property
    def pid(self) -> int:
        """Of the process, which has begun."""
        assert self._process is not None
        return self._process.pid

    def begun(self) -> Connection:
        """This side of the connection to it."""
        if self._connection is None:
            self._connection, theirs = multiprocessing.Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _BEGIN, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                )  # fmt: skip
            self._end = weakref.finalize(self, _end, self._process, os.getpid())
            with contextlib.suppress(ConnectionError):  # it ended at once, which whoever asks it is told
                self._connection.send([path or os.getcwd() for path in sys.path])
                self._connection.send(self._serve)
        return self._connection

    def ended(self) -> int:
        """The exit code of a process that broke down."""
        assert self._process is not None
        code = self._process.wait()
        self.close()
        return code

    def close(self) -> None:
        """End the process, whatever it does."""
        self._end()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End a process, unless this one is a fork of its owner."""
    if os.getpid() == owner:
        process.kill()
        process.wait()


class Caller(Apart):
    """Calls functions of modules in a process of its own, which may hold so much memory, each call for so long.

    Whatever a function meets there is a UserError here: an exception of any kind, a crash of a library, a call that
    takes too much. A process that broke down is replaced. One that had served before gets a second try, since it may
    have broken down because of what earlier calls left in it.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        super().__init__(_call)
        self._memory = memory
        self._used = False
        self._one_at_a_time = threading.Lock()
        self._owner = os.getpid()

    def __call__(
        self, what: str, seconds: float, function: Callable[Given, Found], /, *args: Given.args, **named: Given.kwargs
    ) -> Found:
        """What `function` gives, whose warnings are repeated here. UserError as it raises, OSError for a full disk or a
        place that cannot be written. `what` is done there, as in `FILE: reading its rows`, begins the message of any
        other failure. In such a process it is called on the spot: the process is bounded already."""
        if _INSIDE.is_set():
            return function(*args, **named)
        with self._one_at_a_time:
            if self._owner != os.getpid():  # a fork must not talk over its parent's connection
                self._process, self._connection, self._end, self._owner = None, None, bool, os.getpid()
            used = self._used and self._connection is not None
            try:
                answer, remarks = self._asked(what, seconds, function, args, named)
            except Broken:
                if not used:
                    raise
                answer, remarks = self._asked(what, seconds, function, args, named)
        for kind, remark in remarks:
            warnings.warn(remark, kind, stacklevel=2)
        if isinstance(answer, _Raised):
            raise answer.error
        return answer  # type: ignore[no-any-return]

    def _asked(self, what: str, seconds: float, *wanted: Any) -> tuple[Any, list[tuple[type[Warning], str]]]:
        connection = self.begun()
        try:
            connection.send((os.getcwd(), what, seconds, *wanted))  # relative paths mean the same there
            until = time.monotonic() + seconds
            ready = False
            while not ready:
                ready = connection.poll(EVERY)
                if time.monotonic() > until:
                    raise UserError(f"{what} takes longer than {seconds:g} s")
                if not ready and _held(self.pid) > self._memory:
                    raise Broken(f"{what} takes more than {self._memory >> 20} MiB of memory")
            answer, remarks = connection.recv()
        except RecursionError:  # of a stranger's values, on their way there
            raise UserError(f"{what} fails: its values are nested too deep") from None
        except (EOFError, ConnectionError):
            raise Broken(f"{what} made its process end with exit code {self.ended()}") from None
        except BaseException:  # Ctrl-C too: its answer would be taken for that of the next call
            self.close()
            raise
        self._used = True
        return answer, remarks


class Broken(UserError):
    """The process is gone, or had to be ended."""


class _Raised:
    """What a function raised, as an answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def call(
    what: str, seconds: float, function: Callable[Given, Found], /, *args: Given.args, **named: Given.kwargs
) -> Found:
    """A call by the `Caller` that all of this process share; it ends with this process."""
    return _SHARED(what, seconds, function, *args, **named)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Processes of `multiprocessing` that begin inside do not search the working directory for modules, as Python
    would do before it takes over the paths of this process."""
    with _STARTING:
        before = os.environ.get(_SAFE)
        os.environ[_SAFE] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE]
            else:
                os.environ[_SAFE] = before


def asked(connection: Connection) -> Iterator[Any]:
    """In the process: what it is asked, until the other side hangs up. Ctrl-C is for the other side, which ends it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            wanted = connection.recv()
        except (EOFError, OSError):
            return
        yield wanted


def _call(connection: Connection) -> None:
    """Call what is asked for."""
    import resource
    import signal

    _INSIDE.set()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # a library that aborts writes what a stranger may have chosen
        os.dup2(silent, stream)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for place, what, seconds, function, args, named in asked(connection):
        os.chdir(place)
        signal.alarm(int(seconds) + GRACE)
        answer: Any
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = function(*args, **named)
            except UserError as error:
                answer = _Raised(UserError(str(error)))
            except Exception as error:  # strangers' bytes may make anything fail
                answer = _Raised(error if isinstance(error, OSError) and of_system(error) else _told(what, error))
        signal.alarm(0)
        said = [(each.category, str(each.message)) for each in caught if issubclass(each.category, UserWarning)]
        connection.send((answer, said))


def _told(what: str, error: Exception) -> UserError:
    if isinstance(error, MemoryError):
        return UserError(f"{what} takes too much memory")
    words = "".join(letter if letter.isprintable() else "?" for letter in str(error)[:200])
    return UserError(f"{what} fails ({type(error).__name__}: {words})")


def _held(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


_SHARED = Caller()
_INSIDE = threading.Event()
"""Set in the process of a `Caller`."""
