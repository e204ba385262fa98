"""The interface between launchers and the engine: jobs, slots, events. A launcher is a `LauncherPart` whose `spawn`
returns a `Launcher`."""

from __future__ import annotations

import functools
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from guidebench.harness.execution import Execution
from guidebench.harness.identity import provenance, sources
from guidebench.harness.identity.cells import names_of
from guidebench.harness.loop.job import Job
from guidebench.harness.parts import LauncherPart

ENDS = ("finished", "stopped", "crashed", "error")
"""Kinds of event that end a job."""


class Event(NamedTuple):
    """An event of a job. `kind` is demonstrations (made before the job begins), started, progress, trained (some
    seeds, if others follow), notice, halted, failed (one seed), retry, or the end of the job: finished, stopped,
    crashed, error."""

    job: Job
    kind: str
    content: Mapping[str, Any]


class Slot(NamedTuple):
    """A CPU core or a share of a GPU on which one worker runs."""

    device: str
    gpu: str | None = None
    """GPU index or UUID, as in CUDA_VISIBLE_DEVICES."""


class Standing(NamedTuple):
    """A job in a scheduler's queue, with its state in words."""

    job: Job
    words: str
    """Its state, and why it waits, such as "pending in SLURM as 17_0: Resources"."""


class Launcher(ABC):
    """Starts the workers of the jobs that one command gives it."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs and return soon. A run begins after the run of its pre-training stage with the same seed has
        ended."""

    @abstractmethod
    def poll(self, seconds: float) -> Sequence[Event]:
        """Return what has happened since the last call, after waiting at most `seconds` for the first event."""

    @property
    @abstractmethod
    def open(self) -> int:
        """Number of jobs that were submitted and have not ended."""

    @abstractmethod
    def cancel(self, now: bool = False) -> None:
        """End all open jobs: workers write a checkpoint and stop; with `now` they are killed without one. Each job that
        had begun ends with an event."""

    def queued(self) -> Sequence[Standing]:
        """Return the jobs of the study in the scheduler's queue, those of other commands included; () for a launcher
        without a scheduler. Raise UserError if the scheduler cannot be reached from here."""
        return ()

    def lost(self) -> Sequence[Standing]:
        """Return the jobs of the study that left the scheduler's queue without writing their end, with the scheduler's
        reason; () for a launcher without a scheduler. Raise UserError if the scheduler cannot be reached from here."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Scheduled(LauncherPart):
    """A launcher whose scheduler starts the workers on several machines, and goes on without the command."""

    wait: bool = False
    """Whether the command stays until the tasks have ended, as with launcher=local; stopping it cancels them (choice:
    studies last longer than terminals)."""

    @property
    def detached(self) -> bool:
        return not self.wait

    @property
    def shared(self) -> bool:
        return True

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """Whether the scheduler gives each task a GPU, or a share of one."""

    def device(self, execution: Execution) -> str:
        """Return the device of the workers."""
        if execution.device == "auto":
            return "cuda" if self.on_gpu else "cpu"
        return execution.device

    def slots(self, execution: Execution) -> list[Slot]:
        """Return one slot per concurrent worker: `workers` of them, or a single one if that setting is open."""
        return [Slot(self.device(execution))] * (execution.workers or 1)


def elsewhere(jobs: Sequence[Job], execution: Execution) -> list[Job]:
    """Return the jobs for workers on other machines, with the digests of the sources and packages here. A worker
    refuses its job if its machine has others, unless `mixed_commits` is set. The sources are read once for all jobs."""
    if execution.mixed_commits:
        return [replace(job, shared=True, code={}) for job in jobs]
    code_of = functools.cache(functools.partial(provenance.code, snapshot=sources.Sources()))
    return [replace(job, shared=True, code=code_of(names_of(job.cell))) for job in jobs]


def command(*words: str) -> list[str]:
    """Return the command that starts a worker. It reads its job from standard input, or from the job file given in
    `words`."""
    # -P: a file in the current directory must not shadow a module.
    return [sys.executable, "-P", "-m", "guidebench.harness.run.worker", *words]


def environment(slot: Slot, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables of a worker in a slot."""
    # One thread per worker: more would change the rounding of sums, and all cores have workers already.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join([str(sources.ROOT), *filter(None, [inherited.get("PYTHONPATH")])])
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # the numbers that nvidia-smi shows
    return {**order, **inherited, **threads, "CUDA_VISIBLE_DEVICES": slot.gpu or "", "PYTHONPATH": path}
