"""Processes of our own modules: forked from an interpreter that has imported what they need, or started afresh.

Importing torch takes two seconds of processor time. A command that starts many workers therefore starts one *fork
server* (`running`): an interpreter of a single thread that imports the given modules and then forks at each request of
`start`. A forked process can ask the same server, so the model processes of a worker start quickly too. Where no server
runs, `start` starts a new interpreter, with the same result.

The server ends when the process that started it ends. `parent_watch` says in either kind of process whether the one
that started it has ended. A process that has not ended STOPPING seconds after the one that asked for it, since it hangs
or is stopped, is killed by the server, and the server itself ends when no process is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import json
import math
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, NoReturn, Protocol

from guidebench.harness import heartbeats, processes
from guidebench.harness.errors import Notice
from guidebench.harness.heartbeats import SILENT_AFTER, Counter, Pulse, Silent, Watch

LOOK = 0.2
"""Longest time in seconds for which one thread that waits for a process keeps the others waiting."""
UNKNOWN = 255
"""Exit code of a process whose server has ended before it, or does not tell."""
TELLING = 5.0
"""Seconds within which the server tells the exit code of a process that has ended, and a process writes the whole of a
request (choice: both take milliseconds)."""
_HEADER = struct.Struct("=QI")
"""Bytes of a request, number of file descriptors."""
_DISMISSAL = _HEADER.pack(0, 0)
"""What the process that has started the server sends last, unless it was killed."""
_STATUS = struct.Struct("=i")
_BOOT = """
import json, os, sys
with open(int(sys.argv[1]), "rb") as file:
    sys.path[:], module, words, parent, pulse = json.load(file)
import importlib
from guidebench.harness import fork_server, heartbeats, processes
processes.begin()
fork_server._parent = parent
if pulse:
    heartbeats.begin(*pulse)
sys.argv[:] = [module, *words]
processes.leave(importlib.import_module(module).main(*words))
"""


class Process(Protocol):
    """What `subprocess.Popen` and `Forked` have in common."""

    pid: int
    stdin: Any
    stdout: Any
    stderr: Any

    @property
    def returncode(self) -> Any: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class _Request(NamedTuple):
    module: str
    words: Sequence[str]
    paths: list[str]
    """Directories that are searched for modules."""
    directory: str
    environment: dict[str, str]
    numbers: Sequence[int]
    """The number of each passed file descriptor in the new process; the first three are the standard streams."""
    group: bool
    """Whether the process leads a process group of its own, in which the processes that it asks for will be."""
    pulse: tuple[int, float] | None = None
    """Descriptor and interval of its heartbeat (`heartbeats.begin`)."""


def start(
    module: str,
    *words: str,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    start_new_session: bool = False,
    text: bool = False,
    pulse: Pulse | None = None,
) -> Process:
    """Start a process that calls `main(*words)` of a module, whose result is its exit code.

    The parameters are those of `subprocess.Popen`. With `start_new_session` the process leads a process group that no
    terminal reaches; it, and the processes that it starts here, can be killed by `heartbeats.kill_group`. `pulse`: on
    which it beats, from before it imports the module.

    The process imports from the same paths as this one; the working directory is not added to them, since it may hold
    an untrusted study.
    """
    paths = [path or os.getcwd() for path in sys.path]
    beat = None if pulse is None else (pulse.descriptor, pulse.interval)
    handles = [*pass_fds, *([] if pulse is None else [pulse.descriptor])]
    if _server is not None and is_running():
        with contextlib.suppress(OSError):  # the server has ended
            return _server.fork(
                module, words, paths, (stdin, stdout, stderr), os.environ if env is None else env, handles,
                start_new_session, text, beat,
            )  # fmt: skip
    return _interpreter(
        module, words, paths, handles, beat, stdin=stdin, stdout=stdout, stderr=stderr, env=env,
        start_new_session=start_new_session, text=text,
    )  # fmt: skip


def _interpreter(
    module: str,
    words: Sequence[str],
    paths: Sequence[str],
    pass_fds: Sequence[int] = (),
    beat: tuple[int, float] | None = None,
    **options: Any,
) -> subprocess.Popen[Any]:
    reading, writing = os.pipe()
    try:
        process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(reading)], pass_fds=[*pass_fds, reading], **options
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    with contextlib.suppress(BrokenPipeError), open(writing, "w") as file:  # it may have ended at once
        json.dump([[*paths], module, [*words], os.getpid(), beat], file)
    return process


@contextlib.contextmanager
def running(
    *modules: str, environment: Mapping[str, str] | None = None, silent_after: float = SILENT_AFTER
) -> Iterator[None]:
    """Let `start` fork from a server that has imported `modules`, as long as the context is open. The server starts at
    the first request. Where one runs already, it is used. `environment`: environment variables of the server, which
    count while it imports; `silent_after`: seconds without a heartbeat of the server after which `start` does without
    it."""
    global _server
    if not hasattr(os, "pidfd_open") or is_running():
        yield
        return
    _server = server = _Client(modules=modules, environment=environment, silent_after=silent_after)
    try:
        yield
    finally:
        _server = None
        server.close()


def is_running() -> bool:
    """Return whether `start` forks in this process."""
    return _server is not None and _server.owner == os.getpid() and not _server.failed


class _Client:
    """The connection of this process to a fork server."""

    def __init__(
        self,
        control: socket.socket | None = None,
        watch: Watch | None = None,
        modules: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        silent_after: float = SILENT_AFTER,
    ) -> None:
        """`control`, `watch`: the connection to a server that runs, and its heartbeat; without them, the first request
        starts a server."""
        self.owner, self.failed = os.getpid(), False
        self._control, self._watch, self._modules, self._environment = control, watch, modules, environment
        self._silent_after = silent_after
        self._process: subprocess.Popen[Any] | None = None
        self._turn = threading.Lock()

    def _connection(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair()
            pulse = Pulse(self._silent_after)
            handles = [theirs.fileno(), pulse.descriptor]
            with theirs:
                self._process = _interpreter(
                    __name__, [*map(str, handles), str(self._silent_after), *self._modules],
                    [path or os.getcwd() for path in sys.path], stdin=subprocess.DEVNULL, pass_fds=handles,
                    env=self._environment, start_new_session=True,
                )  # fmt: skip
            pulse.close()
            self._watch = Watch(self._process.pid, pulse)
        return self._control

    def close(self) -> None:
        """End the server, if this process has started one. It first kills what hangs of the groups that it has forked;
        other processes of this one go on, and end as any that serves this process."""
        mine = self._process is not None and self.owner == os.getpid()
        if self._control is not None:
            if mine and not self.failed:
                with contextlib.suppress(OSError):
                    self._control.sendall(_DISMISSAL)
            self._control.close()
        if mine:
            assert self._process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.0 if heartbeats.is_stopped(self._process.pid) else heartbeats.STOPPING + 1.0)
            self._process.kill()
            self._process.wait()

    def fork(
        self,
        module: str,
        words: Sequence[str],
        paths: list[str],
        streams: Sequence[int | IO[Any] | None],
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        group: bool,
        text: bool,
        beat: tuple[int, float] | None = None,
    ) -> Forked:
        """Ask the server for a process. Raise OSError if it has ended, or gives no sign of life."""
        numbers = (0, 1, 2, *pass_fds)
        request = _Request(module, tuple(words), paths, os.getcwd(), dict(env), numbers, group, beat)
        with contextlib.ExitStack() as closing:
            ours: list[int | None] = []
            handles: list[int] = []
            for number, stream in enumerate(streams):
                mine, theirs = _stream(number, stream, closing)
                ours.append(mine)
                handles.append(theirs)
            exit_pipe, status = os.pipe()
            closing.callback(os.close, status)
            try:
                with self._turn:
                    content = json.dumps(request).encode()
                    handles += [*pass_fds, status]
                    control = self._connection()
                    control.settimeout(heartbeats.LOOK)
                    socket.send_fds(control, [_HEADER.pack(len(content), len(handles))], handles)
                    control.sendall(content)  # which the system keeps, since each request is answered before the next
                    answer, (pidfd,) = self._answer(control)
                    (pid,) = struct.unpack("=Q", answer)
            except (OSError, ValueError, struct.error) as error:
                self.failed = True  # a late answer would be taken for that of the next request
                for number in (exit_pipe, *(mine for mine in ours if mine is not None)):
                    os.close(number)
                raise error if isinstance(error, OSError) else OSError("the fork server has ended") from None
        return Forked(pid, pidfd, exit_pipe, ours, text)

    def _answer(self, control: socket.socket) -> tuple[bytes, list[int]]:
        """Return the server's answer and the descriptor that comes with it. Raise OSError if it gives no sign of life;
        it is left to the processes that it has forked, which end when it ends."""
        assert self._watch is not None
        while True:
            try:
                answer, handles, _, _ = socket.recv_fds(control, 8, 1)
                return answer, handles
            except TimeoutError:
                try:
                    self._watch.look()
                except Silent:
                    message = f"the process that forks others {self._watch.silence()}; they start as new interpreters"
                    warnings.warn(Notice(message), stacklevel=2)
                    raise OSError(message) from None


def _stream(number: int, stream: int | IO[Any] | None, closing: contextlib.ExitStack) -> tuple[int | None, int]:
    """Return our end of a standard stream, if it is a pipe, and the end of the new process."""
    if stream is None:
        return None, number
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        mine, theirs = (writing, reading) if number == 0 else (reading, writing)
        closing.callback(os.close, theirs)
        return mine, theirs
    if stream == subprocess.DEVNULL:
        theirs = os.open(os.devnull, os.O_RDWR)
        closing.callback(os.close, theirs)
        return None, theirs
    if stream == subprocess.STDOUT:
        return None, 1
    return None, stream if isinstance(stream, int) else stream.fileno()


class Forked:
    """A process that a fork server started; it has the methods of `subprocess.Popen` that are used here."""

    def __init__(self, pid: int, pidfd: int, exit_pipe: int, streams: Sequence[int | None], text: bool) -> None:
        self.pid, self._pidfd, self._exit_pipe = pid, pidfd, exit_pipe
        self._code: int | None = None
        self._turn = threading.Lock()
        suffix = "" if text else "b"
        modes = (f"{mode}{suffix}" for mode in ("w", "r", "r"))
        self.stdin, self.stdout, self.stderr = (
            None if stream is None else open(stream, mode)  # noqa: SIM115
            for stream, mode in zip(streams, modes, strict=True)
        )

    @property
    def returncode(self) -> int | None:
        return self._code

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            remaining = None if end is None else max(0.0, end - time.monotonic())
            seconds = LOOK if remaining is None else min(LOOK, remaining)  # other threads wait for their turn
            with self._turn:
                if self._code is None and not _readable(self._pidfd, seconds):
                    if remaining == 0.0:
                        raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                    continue
                if self._code is None:
                    status = os.read(self._exit_pipe, _STATUS.size) if _readable(self._exit_pipe, TELLING) else b""
                    self._code = int(_STATUS.unpack(status)[0]) if len(status) == _STATUS.size else UNKNOWN
                    os.close(self._exit_pipe)
                    os.close(self._pidfd)
        return self._code

    def send_signal(self, number: int) -> None:
        with self._turn:
            if self._code is None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        if getattr(self, "_code", 0) is None:
            for number in (self._pidfd, self._exit_pipe):
                with contextlib.suppress(OSError):
                    os.close(number)


def _readable(number: int, seconds: float) -> bool:
    with selectors.PollSelector() as selector:
        selector.register(number, selectors.EVENT_READ)
        return bool(selector.select(seconds))


_server: _Client | None = None
"""The server that forks for this process."""
_lifeline: int | None = None
"""In a forked process, a pipe that closes when the process that asked for it ends."""
_parent: int | None = None
"""In a new interpreter, the process that started it."""


def parent_watch() -> Callable[[], bool]:
    """Return a function that says whether the process which started this one has ended."""
    if (lifeline := _lifeline) is not None:
        return lambda: _readable(lifeline, 0.0)
    parent = os.getppid() if _parent is None else _parent
    return lambda: os.getppid() != parent


def main(handle: str, counter: str, silent_after: str, *modules: str) -> NoReturn:
    """Run the fork server: import `modules`, then fork at each request, until the process that started this one ends.
    `handle`: descriptor of the socket of requests; `counter`: descriptor of the heartbeat."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    beats = Counter(int(counter), float(silent_after))
    with beats.beating():  # the thread ends before the first fork
        for module in modules:
            importlib.import_module(module)
        gc.freeze()
    _Server(socket.socket(fileno=int(handle)), beats).serve()
    os._exit(0)


class _Child(NamedTuple):
    """A process that the server has forked."""

    asker: socket.socket
    """The connection on which it was asked for."""
    connection: socket.socket
    """The connection on which it asks."""
    lifeline: int
    """The descriptor whose end tells it that its asker has ended; -1 after that."""
    status: int
    """The pipe on which its exit code is sent."""


class _Server:
    def __init__(self, control: socket.socket, counter: Counter) -> None:
        self._first, self._counter = control, counter
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._children: dict[int, _Child] = {}
        self._orphans: dict[int, float] = {}
        """Process whose asker has ended -> time at which it is killed."""
        self._dismissed = False
        """Whether the process that has started the server ends it and goes on itself."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._wakes = (reading, writing)
        self._selector.register(reading, selectors.EVENT_READ)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes[1], warn_on_full_buffer=False)
        while self._first.fileno() >= 0 or self._orphans:
            now = time.monotonic()
            for pid in [pid for pid, due in self._orphans.items() if due <= now]:
                self._kill(pid)
            self._counter.beat()
            due = min(now + self._counter.interval, *self._orphans.values(), math.inf)
            for key, _ in self._selector.select(max(0.0, due - now)):
                if key.fd == self._wakes[0]:
                    os.read(key.fd, 4096)
                    self._reap()
                    continue
                control: socket.socket = key.fileobj  # type: ignore[assignment]
                try:
                    self._answer(control)
                except (OSError, ValueError, EOFError, struct.error):  # that process has ended
                    self._part(control)

    def _part(self, control: socket.socket) -> None:
        """Tell the processes that were asked for on a connection that their asker has ended, once the process that
        started the server has ended, all; and kill them later. Those that serve a process which only dismisses the
        server are left to it."""
        last = control is self._first
        self._selector.unregister(control)
        control.close()
        for pid, child in self._children.items():
            if child.lifeline >= 0 and (last or child.asker is control):
                os.close(child.lifeline)
                self._children[pid] = child._replace(lifeline=-1)
                serves = self._dismissed and child.asker is self._first and os.getpgid(pid) != pid
                if not serves:
                    self._orphans[pid] = time.monotonic() + heartbeats.STOPPING

    def _kill(self, pid: int) -> None:
        """Kill a process and, if it leads a group, the group. It has not been waited for, so its id is its own."""
        self._orphans[pid] = math.inf  # until it has been waited for
        if os.getpgid(pid) == pid:
            heartbeats.kill_group(pid)
        os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._children.pop(pid)
            with contextlib.suppress(OSError):  # nobody waits for it any more
                os.write(child.status, _STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(child.status)
            self._orphans.pop(pid, None)
            if child.lifeline >= 0:
                os.close(child.lifeline)

    def _answer(self, control: socket.socket) -> None:
        header, handles, _, _ = socket.recv_fds(control, _HEADER.size, 64)
        size, count = _HEADER.unpack(header)
        if not size and control is self._first:
            self._dismissed = True
            return
        with open(control.fileno(), "rb", closefd=False, buffering=0) as file:
            content = bytearray()
            while len(content) < size:
                if not (part := file.read(size - len(content))):
                    raise EOFError
                content += part
        request = _Request(*json.loads(bytes(content)))
        if len(handles) != count:
            raise ValueError("file descriptors were lost")
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(TELLING), 0))
        watched, lifeline = os.pipe()
        group = 0 if request.group else self._group(control)
        pid = os.fork()
        if not pid:
            try:
                _join(0, group)
                _become(request, handles[:-1], theirs, watched, self._counter)
            finally:
                os._exit(1)
        _join(pid, group)  # here too, so that it is done before the asker hears of the process
        theirs.close()
        *passed, status = handles
        for number in (*passed, watched):
            os.close(number)
        self._children[pid] = _Child(control, ours, lifeline, status)
        self._selector.register(ours, selectors.EVENT_READ)
        pidfd = os.pidfd_open(pid)
        try:
            socket.send_fds(control, [struct.pack("=Q", pid)], [pidfd])
        finally:
            os.close(pidfd)

    def _group(self, control: socket.socket) -> int | None:
        """Return the process group of the process that asks on a connection; None for the one that has started the
        server, whose group is of another session."""
        for pid, child in self._children.items():
            if child.connection is control:
                return os.getpgid(pid)
        return None


def _join(pid: int, group: int | None) -> None:
    """Move a process into a group; 0 stands for this process and for a new group, None for the group that it is in."""
    if group is not None:
        with contextlib.suppress(OSError):  # the group has ended, or it has been moved already
            os.setpgid(pid, group)


def _become(
    request: _Request, handles: Sequence[int], control: socket.socket, watched: int, counter: Counter
) -> NoReturn:
    """Turn a fork of the server into the process that was asked for, run it and exit."""
    global _server, _lifeline
    import fcntl

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(ignored, signal.SIG_DFL)
    # Numbers below those that are wanted may be in use, so all descriptors are first moved out of the way.
    above = max(request.numbers) + 1
    *moved, mine, _lifeline = (
        fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, above) for handle in (*handles, control.fileno(), watched)
    )
    for handle, number in zip(moved, request.numbers, strict=True):
        os.dup2(handle, number, inheritable=True)
    open_numbers = {*request.numbers, mine, _lifeline}
    for number in map(int, os.listdir("/dev/fd")):
        if number not in open_numbers:
            with contextlib.suppress(OSError):  # the one that lists the others is closed
                os.close(number)
    control.detach()
    _server = _Client(socket.socket(fileno=mine), Watch(os.getppid(), counter))

    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[:] = request.paths
    importlib.invalidate_caches()
    sys.argv[:] = [request.module, *request.words]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else None
        line = name == "stderr" or os.isatty(number)
        raw = open(number, f"{mode}b", closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(raw, errors=errors, line_buffering=line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()  # else all forks would draw alike where a package uses NumPy's global generator
    _name(request.module.rpartition(".")[2])
    code = 1
    try:
        if request.pulse is not None:
            heartbeats.begin(*request.pulse)
        os.chdir(request.directory)
        code = importlib.import_module(request.module).main(*request.words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    processes.leave(code)


def _name(name: str) -> None:
    """Give this process the name of its module in lists of processes, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(15, f"bench {name}".encode()[:15], 0, 0, 0)


__all__ = ["Forked", "Process", "is_running", "main", "parent_watch", "running", "start"]
