"""The assignment that a launcher gives to a worker, and the worker's exit codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

EXIT_STOPPED = 75
"""Exit code of a worker that was stopped; a checkpoint is written."""
EXIT_USER_ERROR = 64
"""Exit code after a UserError, whose message is on standard output."""


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
