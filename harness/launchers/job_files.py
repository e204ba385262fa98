"""Jobs and their events as files of the study, for workers without a pipe to the command.

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
    """Return the job in a file. Its study is the directory that holds the file, wherever that is mounted here. Raise
    UserError if the file is missing or holds no job."""
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"the job file {path} cannot be read here ({error}); is its directory shared?") from None
    return Job.loads(text, directory=str(path.absolute().parent.parent))


def events_of(path: Path) -> Path:
    """Return the path of the events file that belongs to a job file."""
    return path.with_suffix(".events.jsonl")


def tell(path: Path, event: Mapping[str, Any]) -> None:
    """Append an event to the events file of a job file, in a single write."""
    line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    handle = os.open(events_of(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def note_launcher(study: Path, name: str) -> None:
    """Record in the study that the scheduler of the launcher `name` may have jobs of it."""
    (study / FOLDER).mkdir(exist_ok=True)
    (study / FOLDER / f"{name}.launcher").touch()


def launchers(study: Path) -> list[str]:
    """Return the names of the launchers whose schedulers may have jobs of the study."""
    return sorted(path.stem for path in (study / FOLDER).glob("*.launcher"))


class Hearing:
    """Reads the events of a job file from where it stopped reading."""

    def __init__(self, path: Path, new: bool = False) -> None:
        """Begin with the first event or, if `new`, after the events already in the file."""
        self._path = events_of(path)
        self._offset = self._path.stat().st_size if new and self._path.exists() else 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kind and the content of each complete event that is new."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._offset)
                unread = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self._path} cannot be read ({error.strerror}); restore or delete it") from None
        complete = unread[: unread.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            if parsed := event(line) if len(line) <= LONGEST else None:
                yield parsed


def event(line: str | bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the content of the event in a line of a worker's output, or None for any other line, such as
    one that a library printed."""
    try:
        content = each_text(json.loads(line), printable)
        return str(content.pop("event")), content
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
