"""A process of its own for what a stranger's files may make too much of: it can be ended at any moment."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self


class Apart:
    """The process, begun when it is first asked and anew after `close`; a context manager."""

    def __init__(self, serve: Callable[[Connection], None], name: str) -> None:
        """`serve`, of a module's top level, answers what comes over its connection (see `asked`)."""
        self._serve, self._name = serve, name
        self._process: Any = None
        self._connection: Connection | None = None

    @property
    def pid(self) -> int:
        """Of the process, which has begun."""
        return int(self._process.pid)

    def begun(self) -> Connection:
        """This side of the connection to it."""
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=self._serve, args=(theirs,), daemon=True, name=self._name)
            self._process.start()
            theirs.close()
        return self._connection

    def ended(self) -> int:
        """The exit code of a process that broke down."""
        self._process.join()
        code = int(self._process.exitcode)
        self.close()
        return code

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
