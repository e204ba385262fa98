"""Real episodes of MetaWorld: the expert's and random ones, as measures and as frames."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.interfaces import Array
from guidebench.suites.metaworld import MetaWorldDrawing, MetaWorldMT10


class Attempt(NamedTuple):
    """An episode of T steps."""

    task: str
    measures: Array
    """float32 [T, 3]."""
    succeeded: bool
    steps: list[int]
    """Environment steps of the frames."""
    snapshots: Array
    """Those states."""

    @property
    def frames(self) -> Array:
        """Its frames, uint8 [N, 128, 128, 3]."""
        return MetaWorldDrawing(size=128).spawn(self.task)(self.snapshots)


@cache
def attempt(task: str, expert: bool, length: int = 200, seed: int = 0, count: int = 20) -> Attempt:
    """An episode of the expert or of random actions, in `count` frames evenly spread."""
    acting: Any = MetaWorldMT10().of_run(seed).make(task)
    acting.reset(1)
    rng = np.random.default_rng(seed)
    snapshots, measures, succeeded = [acting.snapshot()], [], False
    for _ in range(length):
        succeeded |= acting.step(acting.expert() if expert else rng.uniform(-1, 1, 4)).success
        snapshots.append(acting.snapshot())
        measures.append(acting.measures())
    steps = np.linspace(0, length, count).round().astype(int).tolist()
    return Attempt(task, np.stack(measures), succeeded, steps, np.stack([snapshots[step] for step in steps]))
