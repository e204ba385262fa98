"""Jobs and their events as files of the study, for workers to which no pipe leads.

STUDY/jobs/NAME.json           the job, which a worker is given as `base.command(path)`
STUDY/jobs/NAME.events.jsonl   its events, one a line, in the order in which its workers told them
STUDY/jobs/NAME.launcher       an empty file, named after a launcher whose scheduler may have jobs of the study
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.loop.job import Job
from guidebench.harness.records.files import open_regular, read_regular, write_bytes
from guidebench.harness.texts import each_text, printable

FOLDER = "jobs"
LONGEST = 1_000_000
"""Maximum length of an event in bytes; a longer line is skipped."""


def put(study: Path, job: Job) -> Path:
    """Write a job into its study and return its file."""
    path = study / FOLDER / f"{job.name}.json"
    write_bytes(path, job.dumps().encode())
    return path


def read(path: Path) -> Job:
    """Return the job of a file, whose study is the one that holds the file, wherever that is mounted here. Raise
    UserError if the file is missing or no job."""
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"the job file {path} cannot be read here ({error}); is its directory shared?") from None
    return Job.loads(text, directory=str(path.absolute().parent.parent))


def events_of(path: Path) -> Path:
    """Return the file of the events of a job file."""
    return path.with_suffix(".events.jsonl")


def tell(path: Path, event: Mapping[str, Any]) -> None:
    """Append an event to those of a job file, by a single write."""
    line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    handle = os.open(events_of(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def note_launcher(study: Path, name: str) -> None:
    """Note that a launcher's scheduler may have jobs of the study."""
    (study / FOLDER).mkdir(exist_ok=True)
    (study / FOLDER / f"{name}.launcher").touch()


def launchers(study: Path) -> list[str]:
    """Return the names of the launchers whose schedulers may have jobs of the study."""
    return sorted(path.stem for path in (study / FOLDER).glob("*.launcher"))


class Hearing:
    """Reads the events of a job file from where it stopped reading."""

    def __init__(self, path: Path, new: bool = False) -> None:
        """Begin with the first event, or, if `new`, after those that are there."""
        self._path = events_of(path)
        self._offset = self._path.stat().st_size if new and self._path.exists() else 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kind and the content of each complete event that is new."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._offset)
                told = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self._path} cannot be read ({error.strerror}); restore or delete it") from None
        whole = told[: told.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if found := event(line) if len(line) <= LONGEST else None:
                yield found


def event(line: str | bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the content of an event from a worker's line, or None for a line that is none, as a library
    may print."""
    try:
        content = each_text(json.loads(line), printable)
        return str(content.pop("event")), content
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
