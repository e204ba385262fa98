"""How many seeds of a cell fit into a GPU's memory, measured by training one seed and two for some steps.

`python -m guidebench.harness.run.memory` is a process that reads a cell as JSON from standard input and writes a `Need`
as JSON. It is a process of its own, so that all the memory is free afterwards.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import processes
from guidebench.harness.identity.cells import record, recorded
from guidebench.harness.launchers import base
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import write_json
from guidebench.harness.run import estimates

CONTEXT = 700 * 2**20
"""Bytes that CUDA and its libraries take for a process beside PyTorch's own (choice: 500 MiB are usual)."""
SPARE = 0.1
"""Share of the free memory that is left free, since later batches and evaluations may need more (choice)."""
SECONDS = 2.0
"""Seconds of updates that are measured for each number of seeds."""
PATIENCE = 60.0
"""Maximum seconds of a measurement."""
SCHEMA = 2
"""Version of the cached measurements; a change of how seeds are trained for them makes those of before void."""


class Need(NamedTuple):
    """The most memory that a worker's PyTorch reserves on a GPU, in bytes."""

    fixed: int
    """Bytes that do not depend on the number of seeds."""
    seed: int
    """Bytes that each seed adds."""


def fitting(need: Need, free: int, seeds: int) -> int:
    """Return how many of `seeds` seeds to train together within `free` bytes, at least one, such that the groups
    trained one after another differ by at most one seed."""
    room = free * (1 - SPARE) - CONTEXT - need.fixed
    most = seeds if not need.seed else min(seeds, max(1, int(room // need.seed)))
    return -(-seeds // -(-seeds // most))


def needed(cell: Cell, gpu: str, measured: Callable[[Cell], Need | None] | None = None) -> Need | None:
    """Return the memory that a cell needs on a GPU of this name, from the cache or a new measurement; None if it could
    not be measured. `measured`: the function that measures a cell, `in_process` by default."""
    file = estimates.cached("memory", cell, gpu)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(file.read_bytes())
        if content["schema"] == SCHEMA:
            return Need(int(content["fixed"]), int(content["seed"]))
    need = (measured or in_process)(cell)
    if need is not None:
        with contextlib.suppress(OSError):  # without the cache, it is measured again
            write_json(file, {"schema": SCHEMA, **need._asdict()})
    return need


def in_process(cell: Cell) -> Need | None:
    """Measure a cell in a process of its own, on this process's GPU; None if that fails, as the runs will say."""
    failures = (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError)
    with contextlib.suppress(*failures), tempfile.TemporaryDirectory() as scratch:
        process = subprocess.run(
            [*base.command()[:-1], "guidebench.harness.run.memory"], input=json.dumps(record(cell)), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE, cwd=scratch,
        )  # fmt: skip
        return Need(**json.loads(process.stdout.splitlines()[-1]))
    return None


def measure(cell: Cell, directory: Path) -> Need:
    """Measure a cell in this process; it stores its files in `directory`."""
    import torch

    peaks = []
    for seeds in ((0,), (0, 1)):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        estimates.measure(cell, seeds, "cuda", SECONDS, directory / str(len(seeds)))
        peaks.append(torch.cuda.max_memory_reserved())
    seed_bytes = max(0, peaks[1] - peaks[0])
    return Need(max(0, peaks[0] - seed_bytes), seed_bytes)


def main() -> None:
    """Measure the cell on standard input and write what it needs to standard output."""
    cell = recorded(json.loads(sys.stdin.read()))
    output, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(measure(cell, Path(scratch))._asdict()), file=output, flush=True)


if __name__ == "__main__":
    processes.begin()
    main()
    processes.leave(0)
