"""`guidebench.results.evaluations` in a process of its own, for strangers' studies: however a file lies about what it
takes to unpack, that process is ended before it takes more memory or time than it may have."""

from __future__ import annotations

from guidebench.harness.apart import Caller
from guidebench.results.evaluations import Evaluations, evaluations
from guidebench.results.store import StudyRecord

MEMORY = 3 * 2**29
"""Bytes that the process may hold."""
SECONDS = 60.0
"""For one study."""


class Reader(Caller):
    """The process, which serves for many studies and is begun anew where one was too much for it; a context manager."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        super().__init__(memory)
        self._seconds = seconds

    def read(self, study: StudyRecord) -> dict[tuple[str, int], Evaluations]:
        """What `evaluations` gives; UserError as it raises, and where a study takes too much."""
        return self(f"{study.directory}: reading its evaluations", self._seconds, evaluations, study)
