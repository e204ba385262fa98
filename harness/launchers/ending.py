"""Marks runs whose worker ended without recording its own end.

`python -m guidebench.harness.launchers.ending JOB_FILE NODE SIGNAL` is how a batch script says that a signal ended its
worker, which marks the runs of the job as failed.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

from guidebench.harness.launchers import job_files
from guidebench.harness.loop.job import Job
from guidebench.harness.records import schema
from guidebench.harness.records.leases import Fenced, Lease, LeaseHeld
from guidebench.harness.records.study import RunDirectory, StudyDirectory


def record(
    study: StudyDirectory, job: Job, kind: str, error: str, abandoned: bool = False, patience: float = 0.0
) -> dict[Path, str]:
    """Set the status of the runs of a job that ended with an event of this kind ("crashed", "error", "stopped"). Return
    run directory -> error, for errors that could not be written. Runs that are finished, or that another worker may
    hold, stay unchanged. `abandoned`: whether a scheduler reports that the job has ended; `patience`: seconds to wait
    for a lease (`Lease.acquire`)."""
    unwritten = {}
    for run in runs_of(study, job):
        if _marked(run.status, kind) is None:
            continue
        lease = Lease(run.home, "run")
        try:
            lease.acquire(patience, abandoned=abandoned)
            ended_run = RunDirectory(run.home, lease)  # as the worker left it
            if (marked := _marked(ended_run.status, kind)) is not None:
                ended_run.update(**({"status": marked, "error": error} if marked == "failed" else {"status": marked}))
        except (LeaseHeld, Fenced):
            pass
        except OSError:  # the disk is full, possibly the error itself
            if kind != "stopped":
                unwritten[run.home] = error
        finally:
            lease.release()
    return unwritten


def _marked(status: str, kind: str) -> str | None:
    """Return the new status of a run with this status after an event of this kind; None for no change."""
    if kind in ("crashed", "error"):
        return None if status == "finished" else "failed"
    return "stopped" if kind == "stopped" and status == "running" else None


def failed(path: Path, error: str, abandoned: bool = False, patience: float = 0.0) -> None:
    """Mark the runs of a job file as failed and append the event of its end, for a worker that could not do so. No
    event is written if the study is read-only or the disk is full."""
    job = job_files.read(path)
    record(StudyDirectory(Path(job.directory)), job, "crashed", error, abandoned, patience)
    with suppress(OSError):
        job_files.tell(path, {"event": "crashed", "error": error})


def by_signal(number: int) -> str:
    """Describe how a signal (by its number) ended a worker, and what to do about it."""
    if number == signal.SIGBUS:
        return (
            "the disk is full: the stored transitions could not be written; "
            "free some room and run the same command again"
        )
    if number == signal.SIGKILL:
        return "the worker was killed (SIGKILL), by the system if memory ran out: then lower workers, pack or capacity"
    return f"the worker was ended by {signal.Signals(number).name}"


def runs_of(study: StudyDirectory, job: Job) -> list[RunDirectory]:
    """Return the run directories of a job, one per seed."""
    cell = job.cell
    directory = schema.directory_of(cell["suite"], cell["task"], cell["method"], cell["cell"])
    return [study.run(directory, seed) for seed in job.seeds]


if __name__ == "__main__":
    failed(Path(sys.argv[1]), f"node {sys.argv[2]}: {by_signal(int(sys.argv[3]))}")
