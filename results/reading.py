"""`results.evaluations` in a process of its own, for strangers' studies: however a file lies about what it takes to
unpack, that process is ended before it takes more memory or time than it may have."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.errors import UserError
from results.evaluations import Evaluations, evaluations
from results.store import Study

MEMORY = 3 * 2**29
"""Bytes that the process may hold. (Its address space is no measure: allocators reserve gigabytes that they never
touch.)"""
SECONDS = 60.0
"""For one study."""
EVERY = 0.05
"""Seconds between two looks at what the process holds."""


class Reader:
    """The process, which serves for many studies and is begun anew where one was too much for it; a context manager."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._limits = seconds, memory
        self._process: Any = None
        self._connection: Connection | None = None

    def __call__(self, study: Study) -> dict[tuple[str, int], Evaluations]:
        """What `evaluations` gives; UserError as it raises, and where a study takes too much."""
        seconds, memory = self._limits
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True, name="reader")
            self._process.start()
            theirs.close()
        try:
            self._connection.send(study)
            until = time.monotonic() + seconds
            while not self._connection.poll(EVERY):
                if time.monotonic() > until:
                    raise UserError(f"{study.directory}: reading its evaluations takes longer than {seconds:g} s")
                if _held(self._process.pid) > memory:
                    raise UserError(f"{study.directory}: reading its evaluations takes more than {memory >> 20} MiB")
            answer: dict[tuple[str, int], Evaluations] | UserError
            answer, remarks = self._connection.recv()
        except UserError:
            self.close()
            raise
        except (EOFError, ConnectionError):
            self.close()
            raise UserError(f"{study.directory}: the process that read its evaluations broke down") from None
        for remark in remarks:
            warnings.warn(remark, stacklevel=2)
        if isinstance(answer, UserError):
            raise answer
        return answer

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _held(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _serve(connection: Connection) -> None:
    """Read what is asked for until the other side hangs up."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other side, which then ends this one
    while True:
        try:
            study: Study = connection.recv()
        except (EOFError, OSError):
            return
        answer: Any
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = evaluations(study)
            except UserError as error:
                answer = error
            except (MemoryError, RecursionError):
                answer = UserError(f"{study.directory}: reading its evaluations took too much memory")
        said = [str(warning.message) for warning in caught if warning.category is UserWarning]
        connection.send((answer, said))
