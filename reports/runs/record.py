"""The contents of one run's files.

They are untrusted: their size is checked before they are read, and their contents as they are read. A damaged file
affects only its own part of the page.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from guidebench import results
from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.reports.runs import calls, episodes
from guidebench.reports.runs.reading import brief, names, tail, within
from guidebench.results import CellRecord, RunRecord, StudyRecord, limits
from guidebench.results.rows import EVALUATIONS, undeclared

if TYPE_CHECKING:
    import pandas as pd

ROWS = 2**26
"""Most bytes of a file of records: 64 MiB, a thousand times what a run of the paper's length writes."""
ALL_ROWS = 2**28
"""Most bytes of all files of records of a run: 256 MiB."""
PATIENCE = 60.0
"""Seconds for reading a file of records."""
CASSETTES = (calls.FILES + 1) * 2 * calls.PATIENCE
"""Seconds for reading the calls of all cassettes."""
LINES = 200
"""Most lines of the log."""
LOGS = 10_000
"""Most log files of a study that are searched for the run's own."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class WorkerLog:
    """The end of the log of a run's worker."""

    name: str
    text: str
    left_out: int
    """Bytes before it."""


@dataclass(frozen=True)
class Record:
    """One run, as far as its files can be read."""

    study: StudyRecord
    """The study's record, restricted to this run."""
    rows: Mapping[str, pd.DataFrame]
    """Log -> its records in order; missing and unreadable logs are absent."""
    calls: calls.Calls
    episodes: episodes.Episodes
    log: WorkerLog | None
    notes: tuple[str, ...]
    """What is not shown, and why."""

    @property
    def cell(self) -> CellRecord:
        return self.study.cells[0]

    @property
    def run(self) -> RunRecord:
        return self.study.runs[0]


def read(directory: str | Path) -> Record:
    """Return the record of a run; raise UserError if the directory is not that of a run that has started."""
    notes: list[str] = []
    study = _told(partial(results.run, directory), notes)
    run = study.runs[0]
    home = study.directory / run.directory
    rows = {}
    left = ALL_ROWS
    for what in (EVALUATIONS, *study.logs, *undeclared(study, run)):
        size = max((path.stat().st_size for path in _files(home, what) if path.is_file()), default=0)
        left -= size
        if left < 0 and size:
            notes.append(f"{what} is left out: the logs of the run have more than {ALL_ROWS:,} bytes together")
            continue
        rows_of = partial(_rows, _bare(study), home, what)
        frame = _attempt(partial(reader_process.call, f"{home}: reading its {what}", PATIENCE, rows_of), notes)
        if frame is not None and not frame.empty:
            rows[what] = frame
    asked = partial(calls.recorded, study.directory, f"{run.cell.id}/{run.seed}")
    found = (
        _attempt(partial(reader_process.call, "models/: reading the calls", CASSETTES, asked), notes) or calls.Calls()
    )
    seen = episodes.episodes(home)
    log = _attempt(partial(_log, study.directory, run), notes)
    said = [brief(note.replace(f"{study.directory}/", ""), 600) for note in notes]
    return Record(study, rows, found, seen, log, (*dict.fromkeys(said), *found.notes, *seen.notes))


def _attempt(read: Callable[[], Found], notes: list[str]) -> Found | None:
    """Return the result of `read`, or None with a note."""
    try:
        return _told(read, notes)
    except (UserError, OSError) as error:
        notes.append(str(error))
        return None


def _told(read: Callable[[], Found], notes: list[str]) -> Found:
    """Return the result of `read`; its warnings become notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read()
    notes += [str(each.message) for each in caught if each.category is UserWarning]
    return found


def _bare(study: StudyRecord) -> StudyRecord:
    """Return a study's record that suffices for checking a run's logs, without other content, however deeply nested."""
    cell = replace(study.cells[0], settings={}, versions={}, parts={})
    return replace(study, cells=(cell,), runs=(replace(study.runs[0], cell=cell, provenance={}),))


def _rows(study: StudyRecord, home: Path, what: str) -> pd.DataFrame | None:
    """Return the records of a log; raise UserError if it is too large or does not fit."""
    for path in _files(home, what):
        if path.exists() and not within(study.directory, path):
            raise UserError(f"{path} is no file of the study")
        if path.is_file() and (size := path.stat().st_size) > ROWS:
            raise UserError(f"{path} has {size:,} bytes; at most {ROWS:,} are read")
    if (home / f"{what}.parquet").is_file():
        limits.footer(home / f"{what}.parquet")
    return results.load(study, what=what)


def _files(home: Path, what: str) -> tuple[Path, Path]:
    return home / f"{what}.parquet", home / f"{what}.jsonl"


def _log(study: Path, run: RunRecord) -> WorkerLog | None:
    """Return the end of the newest non-empty log of a worker that trained the run."""
    begin = f"{run.cell.method}-{run.cell.id}-"
    found, _ = names(study / "logs", (".log",), LOGS)
    files = [study / "logs" / name for name in found if name.startswith(begin) and run.seed in _seeds(name, begin)]
    spoken = [path for path in files if within(study, path) and path.stat().st_size]
    if not spoken:
        return None
    newest = max(spoken, key=lambda path: path.stat().st_mtime)
    return WorkerLog(brief(newest.name, 100), *tail(newest, LINES))


def _seeds(name: str, begin: str) -> Iterable[int]:
    """Return the seeds that the worker with a log of this name trained (harness/launchers/local.py)."""
    told = name.removeprefix(begin).removesuffix(".log")
    first, to, last = told.partition("_to_")
    if to and first.isdecimal() and last.isdecimal():
        return range(int(first), int(last) + 1)
    return [int(part) for part in told.split("_") if part.isdecimal()]


def settings(cell: CellRecord, most: int = 2_000) -> list[tuple[str, str, str]]:
    """Return name, value and layer of every setting."""
    found = []
    for name, entry in list(cell.settings.items())[:most]:
        layered: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {"value": entry}
        found.append(
            (
                brief(str(name), 200),
                brief(_text(layered.get("value")), 500),
                brief(str(layered.get("layer") or ""), 100),
            )
        )
    return found


def provenance(run: RunRecord) -> list[tuple[str, str]]:
    """Return the software and hardware of the run as names and values."""
    found = []
    for name, value in list(run.provenance.items())[:50]:
        pairs = value.items() if isinstance(value, Mapping) else None
        text = (
            ", ".join(f"{key} {_text(each)}" for key, each in list(pairs)[:100]) if pairs is not None else _text(value)
        )
        found.append((brief(str(name), 100), brief(text, 2_000)))
    return found


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        return "…"
