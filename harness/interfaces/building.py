"""The information that a part receives when it is built for a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.interfaces.spaces import Actions, Observations
    from guidebench.harness.streams import Streams


@dataclass(frozen=True)
class Build:
    """The information that a part receives when it is built for a worker."""

    seeds: tuple[int, ...]
    observations: Observations
    actions: Actions
    steps: int
    """Environment steps in the whole run."""
    horizon: int
    """Maximum length of an episode in steps."""
    events: tuple[str, ...]
    """Names of the entries of the task's `events()`, in order."""
    device: str
    streams: Sequence[Streams]
    directories: tuple[Path, ...]
    """One directory per seed, for data too large for memory."""
    capacity: int
    """Capacity of the replay in transitions."""
    slots: int
    """Slots of the ring: the capacity (or the run's length if shorter) plus a margin, so that transitions which a
    checkpoint refers to are not overwritten until two checkpoints later."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Section -> built configuration of the cell: training, evaluation, suite, drawing, and the part in each role."""
    task: str = ""
    """Name of the task in the suite."""

    @property
    def rows(self) -> int:
        return len(self.seeds)

    def suite(self, row: int) -> Any:
        """Return the suite as the run of this seed row uses it."""
        return self.parts["suite"].of_run(self.seeds[row])

    def evaluated(self, row: int) -> Any:
        """Return the suite as evaluation episodes of this seed row's run use it."""
        return self.suite(row).in_evaluation()
