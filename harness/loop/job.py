"""What a launcher tells a worker to do, and what a worker's exit code tells its launcher."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

EXIT_STOPPED = 75
"""Asked to stop, with a checkpoint written."""
EXIT_USER_ERROR = 64
"""Something the user can mend; the message went to standard output."""


@dataclass(frozen=True)
class Job:
    """What a worker is to do. Seeds of a job stand at the same step."""

    study: str
    directory: str
    cell: Mapping[str, Any]
    """A cell's record, as in cell.json."""
    seeds: tuple[int, ...]
    device: str = "cpu"
    checkpoint_every: int = 5_000
    probes: int = 0
    keep_replay: bool = False
    tensorboard: bool = False
    threads: int = 1
    models: Mapping[str, Any] = field(default_factory=dict)
    """The settings `models.*` that differ from their defaults."""

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Job:
        content = json.loads(text)
        return cls(**{**content, "seeds": tuple(content["seeds"])})
