"""The assignment that a launcher gives to a worker, and the worker's exit codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.heartbeats import SILENT_AFTER

EXIT_STOPPED = 75
"""Exit code of a worker that was stopped; a checkpoint is written."""
EXIT_HALTED = 77
"""Exit code of a worker whose models answer no more, as for a spent budget; a checkpoint is written."""
EXIT_CRASHED = 1
"""Exit code after any other error, whose traceback ends the log."""
EXIT_USER_ERROR = 64
"""Exit code after a UserError, whose message is on standard output."""
EXIT_UNUSABLE = 69
"""Exit code after an Unusable: another machine may carry out the job."""
EXIT_HELD = 73
"""Exit code if other workers hold all that is left of the job."""
EXIT_ERRORS = (EXIT_USER_ERROR, EXIT_UNUSABLE, EXIT_HELD)
"""Exit codes whose message tells all that there is to know."""


@dataclass(frozen=True)
class Job:
    """The assignment of a worker. All seeds of a job are at the same step."""

    study: str
    directory: str
    cell: Mapping[str, Any]
    """The cell record, as in cell.json."""
    seeds: tuple[int, ...]
    device: str = "cpu"
    checkpoint_every: int = 5_000
    probes: int = 0
    keep_replay: bool = False
    answers: bool = False
    """Whether the runs keep the answers of their models (`records/answers.py`)."""
    threads: int = 1
    cores: int = 1
    """CPU cores that the worker and the processes beside it may use."""
    env_workers: int | None = None
    """Processes that step tasks beside the worker; None for as many as its cores make worthwhile."""
    silent_after: float = SILENT_AFTER
    """Seconds without a heartbeat after which a process beside the worker counts as hung."""
    models: Mapping[str, Any] = field(default_factory=dict)
    """The settings `models.*` that differ from their defaults."""
    code: Mapping[str, str] = field(default_factory=dict)
    """What the worker must find on its machine (`provenance.code`); empty if that is not checked."""
    shared: bool = False
    """Whether workers on other machines may write the study at the same time."""
    pack: int | None = None
    """Maximum seeds that the worker trains at the same time; None for as many as fit into a GPU's memory, and on a CPU
    for all."""
    gpu_share: float = 1.0
    """Share of a GPU's memory that the worker may use, in (0, 1]."""
    gpu_memory: int | None = None
    """GPU memory in MiB that the worker may use and that its share must have; None for its share."""
    model_requests: int | None = None
    """File descriptor, inherited by the worker, of the socket on which its model processes ask for the local models
    that workers share; None if each loads its own."""
    heartbeat: tuple[int, float] | None = None
    """Descriptor and interval of the heartbeat with which a worker goes on that has replaced its program; None for one
    that has not, and for one that nobody watches."""

    @property
    def name(self) -> str:
        """Return the name of its files: the method, the cell and the seeds."""
        seeds = "_".join(map(str, self.seeds)) if len(self.seeds) <= 8 else f"{self.seeds[0]}_to_{self.seeds[-1]}"
        return f"{self.cell['method']}-{self.cell['cell']}-{seeds}"

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str, **others: Any) -> Job:
        """Return the job that `dumps` wrote, with these fields changed. Raise UserError for another text."""
        try:
            content = {**json.loads(text), **others}
            if not isinstance(content["cell"], dict):
                raise TypeError("its cell is no object")
            return cls(**{**content, "seeds": tuple(int(seed) for seed in content["seeds"])})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"no job of this version ({error}); run the command that wrote it again") from None
