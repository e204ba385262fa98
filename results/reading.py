"""`results.evaluations` in a process of its own, for strangers' studies: however a file lies about what it takes to
unpack, that process is ended before it takes more memory or time than it may have."""

from __future__ import annotations

import os
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.errors import UserError
from results.apart import Apart, asked
from results.evaluations import Evaluations, evaluations
from results.store import Study

MEMORY = 3 * 2**29
"""Bytes that the process may hold. (Its address space is no measure: allocators reserve gigabytes that they never
touch.)"""
SECONDS = 60.0
"""For one study."""
EVERY = 0.05
"""Seconds between two looks at what the process holds."""


class Reader(Apart):
    """The process, which serves for many studies and is begun anew where one was too much for it; a context manager."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        super().__init__(_serve, "reader")
        self._limits = seconds, memory

    def __call__(self, study: Study) -> dict[tuple[str, int], Evaluations]:
        """What `evaluations` gives; UserError as it raises, and where a study takes too much."""
        seconds, memory = self._limits
        connection = self.begun()
        try:
            connection.send(study)
            until = time.monotonic() + seconds
            while not connection.poll(EVERY):
                if time.monotonic() > until:
                    raise UserError(f"{study.directory}: reading its evaluations takes longer than {seconds:g} s")
                if _held(self.pid) > memory:
                    raise UserError(f"{study.directory}: reading its evaluations takes more than {memory >> 20} MiB")
            answer: dict[tuple[str, int], Evaluations] | UserError
            answer, remarks = connection.recv()
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


def _held(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _serve(connection: Connection) -> None:
    """Read what is asked for."""
    study: Study
    answer: Any
    for study in asked(connection):
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
