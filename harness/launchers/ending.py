"""What a run's directory says after its worker has ended without saying it itself."""

from __future__ import annotations

from pathlib import Path

from guidebench.harness.loop.job import Job
from guidebench.harness.records.study import RunDirectory, StudyDirectory


def record(study: StudyDirectory, job: Job, kind: str, error: str) -> dict[Path, str]:
    """Mark the runs of a job whose end is an event of this kind; return run directory -> error that could not be
    written. Runs that are finished, or that another worker holds by now, are left alone."""
    unwritten = {}
    for run in runs_of(study, job):
        if kind in ("crashed", "error") and run.status != "finished" and not run.held():
            try:
                run.update(status="failed", error=error)
            except OSError:  # the disk is full, possibly the error itself
                unwritten[run.home] = error
        elif kind == "stopped" and run.status == "running" and not run.held():  # it was killed
            run.update(status="stopped")
    return unwritten


def runs_of(study: StudyDirectory, job: Job) -> list[RunDirectory]:
    """Return the runs of a job."""
    cell = job.cell
    where = f"{cell['suite']}/{cell['task']}/{cell['method']}-{cell['cell']}"
    return [study.run(where, seed) for seed in job.seeds]
