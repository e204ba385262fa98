"""Processes that serve this one, and the channel to them, on which no wait is without limit.

A `ServingProcess` is any of them; a `Companion` also beats (`heartbeats.py`). Whoever sends to a companion or receives
from it looks at its heartbeat while waiting, also in the middle of a message, so a process that is stopped anywhere
ends in an error that names the reason.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, Self

from guidebench.harness import fork_server
from guidebench.harness.heartbeats import LOOK, SILENT_AFTER, Pulse, Silent, Watch, kill_group

_LENGTH, _LONG = struct.Struct("!i"), struct.Struct("!Q")
"""Length of a message; -1 and then the length where it needs more bits (as in `multiprocessing.connection`)."""
_LONGEST = 2**31 - 1
_CHUNK = 2**20
"""Most bytes that are read at once."""
GRACE = 10
"""Seconds for which the end of a process is waited for that has closed its connection."""


def never() -> bool:
    return False


class Channel:
    """This process's end of a pipe whose other end is a `multiprocessing.connection.Connection`. It speaks pickle, so
    both processes are of one user and nobody else can reach the pipe."""

    def __init__(self, connection: Connection) -> None:
        """`connection`: this end, of `multiprocessing.Pipe()`; the channel takes it over."""
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        interval = struct.pack("ll", int(LOOK), int(LOOK % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # the system ends a wait, so none costs a further call
            self._socket.setsockopt(socket.SOL_SOCKET, option, interval)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any, look: Callable[[], None]) -> None:
        """Send a message. `look` is called after every LOOK seconds of waiting, and ends it by what it raises. Raise
        ConnectionError if the other side has ended."""
        content = ForkingPickler.dumps(message)
        long = len(content) > _LONGEST
        length = _LENGTH.pack(-1) + _LONG.pack(len(content)) if long else _LENGTH.pack(len(content))
        for part in (length, content) if len(content) > _CHUNK else (length + bytes(content),):
            view = memoryview(part).cast("B")
            while view:
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    look()

    def receive(self, look: Callable[[], None]) -> Any:
        """Return the next message; `look` as for `send`. Raise EOFError or ConnectionError if the other side has
        ended."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, look))
        if length < 0:
            (length,) = _LONG.unpack(self._exactly(_LONG.size, look))
        return ForkingPickler.loads(self._exactly(length, look))

    def poll(self, seconds: float) -> bool:
        """Return whether a message begins to arrive, or the other side ends, within some seconds."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(1_000 * seconds))

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int, look: Callable[[], None]) -> bytearray:
        content = bytearray(count)
        view = memoryview(content)
        while view:
            try:
                size = self._socket.recv_into(view[:_CHUNK])
            except BlockingIOError:
                look()
                continue
            if not size:
                raise EOFError("the other side has closed the connection")
            view = view[size:]
        return content


class ServingProcess:
    """A process that serves this one through a pipe, started at the first request and again after `close`; a context
    manager.

    It imports from the same paths as this process, except that the working directory, which may hold an untrusted
    study, is not searched for modules. The main script of this process is not imported, since it may lack
    `if __name__ == "__main__"`. Whoever uses `begun` bounds its own waiting.
    """

    module: ClassVar[str] = __name__
    """The module whose `main` the process calls; the system shows its name."""

    def __init__(self, serve: Callable[[Connection], None], *, session: bool = False) -> None:
        """`serve`: a top-level function that answers the requests on its connection. `session`: whether the process
        leads a session, so that the processes that it starts are killed with it."""
        self._serve, self._session = serve, session
        self._process: fork_server.Process | None = None
        self._connection: Connection | None = None
        self._end: Callable[[], object] = bool  # nothing to end yet

    @property
    def pid(self) -> int:
        """Return the id of the process, which must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def processor_seconds(self) -> float:
        """Return the processor time that the process has used; 0 if there is none, or if the system does not tell."""
        if self._process is None or sys.platform != "linux":
            return 0.0
        with suppress(OSError):  # it has ended
            return time.clock_gettime(~self._process.pid << 3 | 2)  # what clock_getcpuclockid(3) returns
        return 0.0

    def begun(self) -> Connection:
        """Start the process if necessary, and return the connection to it."""
        if self._connection is None:
            self._connection = self._start()
            with suppress(ConnectionError):  # it has ended already, so the next request fails
                self._connection.send(self._serve)
        return self._connection

    def ended(self) -> int:
        """Close a process that has failed and return its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:  # it closed its connection and goes on, or is stopped
            end(self._process, self._session)
            code = self._process.wait()
        self.close()
        return code

    def close(self) -> None:
        """Kill the process."""
        self._end()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, pulse: Pulse | None = None) -> Connection:
        """Start the process and return this end of its pipe. `pulse`: on which it beats."""
        connection, theirs = multiprocessing.Pipe()
        with theirs:
            handle = theirs.fileno()
            self._process = fork_server.start(
                self.module, str(handle), stdin=subprocess.DEVNULL, pass_fds=[handle], pulse=pulse,
                start_new_session=self._session,
            )  # fmt: skip
        self._end = weakref.finalize(self, _end, self._process, os.getpid(), self._session)
        return connection


class Companion(ServingProcess):
    """A serving process whose heartbeat is watched during every wait."""

    def __init__(
        self, serve: Callable[[Connection], None], silent_after: float = SILENT_AFTER, stop: Callable[[], bool] = never
    ) -> None:
        """`serve`: as of `ServingProcess`; `silent_after`: seconds without a heartbeat after which the process is
        killed; `stop`: as of `heartbeats.Watch`."""
        super().__init__(serve)
        self._silent_after, self._stop = silent_after, stop
        self._channel: Channel | None = None
        self._watch: Watch | None = None

    def send(self, request: Any) -> None:
        """Send a request, starting the process if necessary. Nothing is raised if it has ended, as `receive` says."""
        channel = self._watched()
        with suppress(ConnectionError):
            channel.send(request, self._look)

    def receive(self) -> Any:
        """Return the next answer. Raise EOFError or ConnectionError if the process has ended, Silent if it was killed
        because it was hung, and Stopped as `heartbeats.Watch.look`."""
        return self._watched().receive(self._look)

    def close(self) -> None:
        """Kill the process."""
        if self._channel is not None:
            self._channel.close()
        self._channel, self._watch = None, None
        super().close()

    def _watched(self) -> Channel:
        """Start the process if necessary, and return the channel to it."""
        if self._channel is None:
            pulse = Pulse(self._silent_after)
            self._channel = Channel(self._start(pulse))
            pulse.close()
            assert self._process is not None
            self._watch = Watch(self._process.pid, pulse, self._stop)
            with suppress(ConnectionError):  # it has ended already, so the next request fails
                self._channel.send(self._serve, self._look)
        return self._channel

    def _look(self) -> None:
        assert self._watch is not None
        try:
            self._watch.look()
        except Silent:
            self.close()
            raise


def end(process: fork_server.Process, session: bool) -> None:
    """Kill a process, also a stopped one; if it leads a session, with its process group."""
    if session and process.poll() is None:  # no group has its id before it leads one
        kill_group(process.pid)
    process.kill()


def _end(process: fork_server.Process, owner: int, session: bool) -> None:
    """Kill a process, unless this process is a fork of its owner."""
    if os.getpid() == owner:
        end(process, session)
        process.wait()


def main(handle: str) -> int:
    """Receive a function on the connection with this file descriptor, then serve the connection with it."""
    connection = Connection(int(handle))
    connection.recv()(connection)
    return 0
