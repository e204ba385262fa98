"""Read `guidebench.results.evaluations` in a separate process, for untrusted studies. The process is ended when it
exceeds its limits of memory or time, so a file that expands when unpacked does no harm."""

from __future__ import annotations

from guidebench.harness.reader_process import Caller
from guidebench.results.evaluations import Evaluations, evaluations
from guidebench.results.store import StudyRecord

MEMORY = 3 * 2**29
"""Most bytes of memory of the process."""
SECONDS = 60.0
"""Time limit for one study, in seconds."""


class Reader(Caller):
    """The reading process, shared by many studies and restarted if a study exceeds its limits; a context manager."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        super().__init__(memory)
        self._seconds = seconds

    def read(self, study: StudyRecord) -> dict[tuple[str, int], Evaluations]:
        """Return `evaluations(study)`; raise UserError as it does, and if the study exceeds a limit."""
        return self(f"{study.directory}: reading its evaluations", self._seconds, evaluations, study)
