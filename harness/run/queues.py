"""What schedulers say of a study, and how they are told to end its jobs, wherever the study is seen from.

The study may be a stranger's, so its job files are read, and its schedulers asked, in the separate process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from guidebench.harness import reader_process, registry
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Execution
from guidebench.harness.launchers import ending, job_files
from guidebench.harness.launchers.base import Launcher
from guidebench.harness.launchers.ending import runs_of
from guidebench.harness.records.study import StudyDirectory

ASKING = 600.0
"""Seconds that the schedulers of a study may take to answer."""


def of(study: Path) -> tuple[dict[Path, str], list[str]]:
    """Return run directory -> its state in a scheduler's queue, and notes on schedulers that cannot be asked. Runs
    whose workers a scheduler ended are marked failed."""
    if not job_files.launchers(study):
        return {}, []
    return reader_process.call(f"{study}: asking for its jobs", ASKING, _of, study)


def _of(study: Path) -> tuple[dict[Path, str], list[str]]:
    words_by_run: dict[Path, str] = {}
    notes = []
    directory = StudyDirectory(study.absolute())
    for name in job_files.launchers(study):
        try:
            launcher = _launcher(name, study)
            for job, words in launcher.lost():
                ending.failed(study / job_files.FOLDER / f"{job.name}.json", words, abandoned=True)
            for job, words in launcher.queued():
                words_by_run |= dict.fromkeys((run.home for run in runs_of(directory, job)), words)
        except UserError as error:
            notes.append(str(error))
    return words_by_run, notes


def cancel(study: Path) -> int:
    """End the jobs of a study in the queues of schedulers; return their number. Raise UserError if one cannot be
    asked."""
    if not job_files.launchers(study):
        return 0
    return reader_process.call(f"{study}: cancelling its jobs", ASKING, _cancel, study)


def _cancel(study: Path) -> int:
    count = 0
    for launcher in _launchers(study):
        count += len(launcher.queued())
        launcher.cancel()
    return count


def _launchers(study: Path) -> Iterator[Launcher]:
    for name in job_files.launchers(study):
        yield _launcher(name, study)


def _launcher(name: str, study: Path) -> Launcher:
    launcher: Launcher = registry.get("launcher", name)().spawn(Execution(launcher=name), study)
    return launcher
