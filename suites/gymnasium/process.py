"""The processes in which environments run, and what is sent to them (`server.py`).

All tasks of one configuration share a process. Each call has a limit of time, counted while this process runs. One
that exceeds it or takes too much memory is killed with its group; the next call starts another one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import heartbeats
from guidebench.harness.errors import UserError
from guidebench.suites.gymnasium import server

MEMORY = 4 * 2**30
"""Resident memory in bytes above which a process is killed (choice)."""
LOOK, LONGEST_GAP = 0.2, 1.0
"""Seconds between two looks at a process that is waited for, and what counts of them at most: this process may have
been stopped itself."""
CHUNK = 2**20


class Lost(Exception):
    """A process has ended or was killed; the message says why."""


class Reply(NamedTuple):
    """What a call returned."""

    header: dict[str, Any]
    arrays: bytes


class Host:
    """A process that holds environments, started at the first call and again after it was lost."""

    def __init__(self, python: str = "") -> None:
        """`python`: the interpreter; "" for the one of this process."""
        self._python, self._owner = python, os.getpid()
        self.generation = 1
        """Number of the process: environments of an earlier one are gone."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.close: Any = bool

    def call(self, call: str, limit: float, body: bytes = b"", longest: int = CHUNK, **words: Any) -> Reply:
        """Return the reply to a call. Raise Lost if the process ends, or exceeds `limit` seconds or `longest` bytes;
        UserError for what it refuses, and for what the environment raises."""
        if self._process is None:
            self._start()
            words["paths"] = [] if self._python else [path for path in sys.path if path and path != os.getcwd()]
        deadline = _Deadline(limit)
        header = json.dumps({"call": call, "limit": limit, **words}).encode()
        try:
            self._send(server.LENGTHS.pack(len(header), len(body)) + header + body, deadline)
            sizes = server.LENGTHS.unpack(self._receive(server.LENGTHS.size, deadline))
            if sizes[0] > server.LONGEST_HEADER or sizes[1] > longest:
                raise Lost(f"it sends {sizes[0] + sizes[1]:,} bytes, and at most {longest:,} are expected")
            answer = json.loads(self._receive(sizes[0], deadline))
            arrays = bytes(self._receive(sizes[1], deadline))
        except (Lost, OSError, ValueError) as error:
            reason = str(error) if isinstance(error, Lost) else self._ending()
            self._lose()
            raise Lost(reason) from None
        except BaseException:  # Ctrl-C: a late answer would be taken for that of the next call
            self._lose()
            raise
        if "refused" in answer or "raised" in answer:
            raise UserError(str(answer.get("refused") or f"{call} raises {answer['raised']}"))
        return Reply(answer, arrays)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [self._python or sys.executable, str(Path(server.__file__)), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise UserError(
                    f"suite.python={self._python} cannot be started ({error.strerror}); name a Python"
                ) from None
        ours.settimeout(LOOK)
        self._socket = ours
        self.close = weakref.finalize(self, _end, self._process, ours, os.getpid())

    def _lose(self) -> None:
        self.close()
        self._process, self.generation = None, self.generation + 1

    def _send(self, message: bytes, deadline: _Deadline) -> None:
        assert self._socket is not None
        view = memoryview(message)
        while view:
            try:
                view = view[self._socket.send(view[:CHUNK]) :]
            except TimeoutError:
                self._look(deadline)

    def _receive(self, count: int, deadline: _Deadline) -> bytearray:
        assert self._socket is not None
        received = bytearray(count)
        view = memoryview(received)
        while view:
            try:
                size = self._socket.recv_into(view[:CHUNK])
            except TimeoutError:
                self._look(deadline)
                continue
            if not size:
                raise Lost(self._ending())
            view = view[size:]
        return received

    def _look(self, deadline: _Deadline) -> None:
        """Raise Lost if the call takes too long, or the process too much memory."""
        assert self._process is not None
        deadline.look()
        if (memory := _resident_bytes(self._process.pid)) > MEMORY:
            raise Lost(
                f"its process takes {memory / 2**30:.1f} GiB of memory, and at most {MEMORY / 2**30:g} are allowed"
            )

    def _ending(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(heartbeats.LEAVING)
        except subprocess.TimeoutExpired:
            return "its process has closed its connection"
        return f"its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


class _Deadline:
    """The limit of a call, in seconds of this process's own running time."""

    def __init__(self, limit: float) -> None:
        self._limit, self._elapsed, self._last = limit, 0.0, time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        self._elapsed, self._last = self._elapsed + min(now - self._last, LONGEST_GAP), now
        if self._elapsed > self._limit:
            raise Lost(f"it takes longer than {self._limit:g} s")


def _end(process: subprocess.Popen[bytes], connection: socket.socket, owner: int) -> None:
    """Kill a process with its group, unless this process is a fork of its owner."""
    connection.close()
    if os.getpid() == owner:
        if process.poll() is None:
            heartbeats.kill_group(process.pid)
        process.wait()


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


_HOSTS: weakref.WeakValueDictionary[tuple[int, str], Host] = weakref.WeakValueDictionary()


def shared(key: str, python: str) -> Host:
    """Return the process of this program that holds the environments `key`; a fork has its own."""
    place = (os.getpid(), key)
    host = _HOSTS.get(place)
    if host is None:
        host = _HOSTS[place] = Host(python)
    return host
