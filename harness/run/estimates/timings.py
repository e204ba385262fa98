"""Timings of cells and their cache: cells that differ only in steps and evaluations share one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from guidebench.harness.identity.provenance import hardware, packages
from guidebench.harness.models import study_models
from guidebench.harness.plan.config import Cell
from guidebench.harness.records.files import write_json

SCHEMA = 2
"""Version of the cached timings; a change of how they are measured makes those of before void."""
SHORTEST = 20.0
"""Minimum duration in seconds of a run that is recorded as a timing."""
Basis = Literal["recorded", "timed"]
"""Basis of a timing: a whole run, or some cycles of one."""


class Timing(NamedTuple):
    """Seconds of a worker, and of the processes beside it, for all seeds that it packs."""

    training: float
    """The worker's time in the training of a whole run."""
    evaluation: float
    """The worker's time in one evaluation."""
    judging: float
    """Time, in a whole run, of the parallel process that draws clips and runs a scripted judge."""
    stepping: float
    """Processor time, in a whole run, of the processes that step tasks beside the worker (`env_workers`)."""


class Setup(NamedTuple):
    """The circumstances, besides its cell, on which the speed of a worker depends."""

    seeds: int
    """Number of seeds that it trains together."""
    device: str
    env_workers: int = 0
    """Number of processes that step its tasks beside it, in training and in evaluations."""


def keep(cell: Cell, setup: Setup, timing: Timing, basis: Basis) -> None:
    """Cache a cell's timing. A recorded run replaces a timing of some cycles, but not vice versa."""
    if basis == "timed" and (before := cached_timing(cell, setup)) is not None and before[1] == "recorded":
        return
    with contextlib.suppress(OSError):  # without the cache, the cell is timed again
        content = {"schema": SCHEMA, "basis": basis, "steps": cell.steps, **timing._asdict()}
        write_json(cached("timings", cell, *setup), content)


def record_run(cell: Cell, setup: Setup, clock: Mapping[str, float], judging: float, stepping: float) -> None:
    """Cache the timing of a finished run if it was long enough; waiting for foundation models is excluded.

    `clock`: `Loop.clock`; `judging`, `stepping`: seconds of the processes beside the worker, as of a `Timing`."""
    if clock["seconds"] < SHORTEST:
        return
    uses_models = any(study_models.is_recorded(cell.section(part.role)) for part in cell.models)
    elsewhere = clock["evaluation_seconds"] + (clock["wait_seconds"] if uses_models else 0.0)
    evaluations = -(-cell.steps // int(cell.settings["evaluation.every"].value))
    training, evaluation = clock["seconds"] - elsewhere, clock["evaluation_seconds"] / evaluations
    keep(cell, setup, Timing(training, evaluation, 0.0 if uses_models else judging, stepping), "recorded")


def cached_timing(cell: Cell, setup: Setup) -> tuple[Timing, Basis] | None:
    """Return the cached timing of a cell that differs from this one at most in steps and evaluations, or None."""
    try:
        content = json.loads(cached("timings", cell, *setup).read_bytes())
        if content["schema"] != SCHEMA or content["basis"] not in get_args(Basis):
            return None
        longer = cell.steps / int(content["steps"])
        training, evaluation, judging, stepping = (float(content[name]) for name in Timing._fields)
        return Timing(longer * training, evaluation, longer * judging, longer * stepping), content["basis"]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None


def directory(of: str) -> Path:
    home = Path(os.environ.get("GUIDEBENCH_CACHE") or Path.home() / ".cache" / "guidebench")
    return home / of


def cached(kind: str, cell: Cell, *also: str | int) -> Path:
    """Return the cache file of a measurement (`kind`) of a cell on this machine with this version of PyTorch. Cells
    that differ only in steps and evaluations share it. `also`: further circumstances that it depends on."""
    values = {
        key: value.value for key, value in cell.settings.items() if key not in ("training.steps", "evaluation.every")
    }
    machine = [*hardware("cpu").values(), packages().get("torch")]
    content = [cell.names[:2], cell.names.parts, values, machine, also]
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return directory(kind) / f"{key}.json"
