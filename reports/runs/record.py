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
from guidebench.harness.records.files import is_within
from guidebench.harness.texts import brief
from guidebench.reports.runs import calls, episodes
from guidebench.reports.runs.reading import names, tail
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

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerLog:
    """The end of the log of a run's worker."""

    name: str
    text: str
    left_out: int
    """Bytes before it."""


@dataclass(frozen=True)
class Record:
    """The contents of one run's files, as far as they can be read."""

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
    """Read the files of a run; raise UserError if the directory is not that of a run that has started."""
    notes: list[str] = []
    study = _with_warnings(partial(results.run, directory), notes)
    run = study.runs[0]
    home = study.directory / run.directory
    rows = {}
    room = ALL_ROWS
    for log_name in (EVALUATIONS, *study.logs, *undeclared(study, run)):
        size = max((path.stat().st_size for path in _files(home, log_name) if path.is_file()), default=0)
        room -= size
        if room < 0 and size:
            notes.append(f"{log_name} is left out: the logs of the run have more than {ALL_ROWS:,} bytes together")
            continue
        rows_of = partial(_rows, _bare(study), home, log_name)
        frame = _attempt(partial(reader_process.call, f"{home}: reading its {log_name}", PATIENCE, rows_of), notes)
        if frame is not None and not frame.empty:
            rows[log_name] = frame
    read_calls = partial(calls.recorded, study.directory, f"{run.cell.id}/{run.seed}")
    run_calls = (
        _attempt(partial(reader_process.call, "models/: reading the calls", CASSETTES, read_calls), notes)
        or calls.Calls()
    )
    run_episodes = episodes.episodes(home)
    log = _attempt(partial(_log, study.directory, run), notes)
    texts = [brief(note.replace(f"{study.directory}/", ""), 600) for note in notes]
    return Record(
        study, rows, run_calls, run_episodes, log, (*dict.fromkeys(texts), *run_calls.notes, *run_episodes.notes)
    )


def _attempt(read: Callable[[], T], notes: list[str]) -> T | None:
    """Return what `read` returns; if it raises UserError or OSError, add a note and return None."""
    try:
        return _with_warnings(read, notes)
    except (UserError, OSError) as error:
        notes.append(str(error))
        return None


def _with_warnings(read: Callable[[], T], notes: list[str]) -> T:
    """Return what `read` returns, and add its warnings to the notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = read()
    notes += [str(warning.message) for warning in caught if warning.category is UserWarning]
    return outcome


def _bare(study: StudyRecord) -> StudyRecord:
    """Return a study's record with no more than is needed to check a run's logs, so that it can be sent to another
    process."""
    cell = replace(study.cells[0], settings={}, versions={}, parts={})
    return replace(study, cells=(cell,), runs=(replace(study.runs[0], cell=cell, provenance={}),))


def _rows(study: StudyRecord, home: Path, log: str) -> pd.DataFrame | None:
    """Read the records of a log; raise UserError if the file is too large or does not fit its schema."""
    for path in _files(home, log):
        if path.exists() and not is_within(study.directory, path):
            raise UserError(f"{path} is no file of the study")
        if path.is_file() and (size := path.stat().st_size) > ROWS:
            raise UserError(f"{path} has {size:,} bytes; at most {ROWS:,} are read")
    if (home / f"{log}.parquet").is_file():
        limits.footer(home / f"{log}.parquet")
    return results.load(study, log=log)


def _files(home: Path, log: str) -> tuple[Path, Path]:
    return home / f"{log}.parquet", home / f"{log}.jsonl"


def _log(study: Path, run: RunRecord) -> WorkerLog | None:
    """Return the end of the newest non-empty log file of a worker that trained the run; None if there is none."""
    begin = f"{run.cell.method}-{run.cell.id}-"
    log_names, _ = names(study / "logs", (".log",), LOGS)
    files = [study / "logs" / name for name in log_names if name.startswith(begin) and run.seed in _seeds(name, begin)]
    nonempty = [path for path in files if is_within(study, path) and path.stat().st_size]
    if not nonempty:
        return None
    newest = max(nonempty, key=lambda path: path.stat().st_mtime)
    return WorkerLog(brief(newest.name, 100), *tail(newest, LINES))


def _seeds(name: str, begin: str) -> Iterable[int]:
    """Return the seeds in a worker's log name, METHOD-CELL-SEEDS.log (harness/launchers/local.py)."""
    seed_text = name.removeprefix(begin).removesuffix(".log")
    first, to, last = seed_text.partition("_to_")
    if to and first.isdecimal() and last.isdecimal():
        return range(int(first), int(last) + 1)
    return [int(part) for part in seed_text.split("_") if part.isdecimal()]


def settings(cell: CellRecord, most: int = 2_000) -> list[tuple[str, str, str]]:
    """Return (name, value, layer) of the first `most` settings of a cell, as texts."""
    lines = []
    for name, setting in list(cell.settings.items())[:most]:
        layered: Mapping[str, Any] = setting if isinstance(setting, Mapping) else {"value": setting}
        lines.append(
            (
                brief(str(name), 200),
                brief(_text(layered.get("value")), 500),
                brief(str(layered.get("layer") or ""), 100),
            )
        )
    return lines


def provenance(run: RunRecord) -> list[tuple[str, str]]:
    """Return (name, value) pairs of the recorded software and hardware of a run, as texts."""
    lines = []
    for name, value in list(run.provenance.items())[:50]:
        pairs = value.items() if isinstance(value, Mapping) else None
        text = (
            ", ".join(f"{key} {_text(part)}" for key, part in list(pairs)[:100]) if pairs is not None else _text(value)
        )
        lines.append((brief(str(name), 100), brief(text, 2_000)))
    return lines


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        return "…"
