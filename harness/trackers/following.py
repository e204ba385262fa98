"""Follows all runs of a study with one tracker, and stores how far each was sent in STUDY/.trackers/NAME.

The study may be a stranger's, so its files are parsed in the separate process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from guidebench.harness import outside, reader_process, registry
from guidebench.harness.errors import UserError, count, of_system
from guidebench.harness.records import leases
from guidebench.harness.records.files import write_json
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.texts import one_line
from guidebench.harness.trackers.base import ENDED, START, Offset, Report, Table, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point, read_points

OFFSETS_FOLDER = ".trackers"
"""Directory of the offsets, in a study."""
OFFSETS = "offsets.json"
EVERY = 2.0
"""Seconds between two looks at a study (choice: checkpoints, which make points final, are further apart)."""
AGAIN = 30.0
"""Seconds from an error of a tracker to the next attempt (choice)."""
READING = 300.0
"""Seconds that reading a run's logs, or the records of all runs, may take."""
RESULTS = ("task", "row", "score", "mean", "low", "high", "seeds", "steps")
"""Columns of the table of results."""
T = TypeVar("T")


def ready(names: Sequence[str]) -> None:
    """Raise UserError if a tracker is unknown, or lacks a package or a login."""
    for name in names:
        registry.get("tracker", name).ready()


class Following:
    """One tracker and one study: `look()` sends what is new. A context manager."""

    def __init__(self, directory: Path, name: str, offsets_directory: Path | None = None) -> None:
        """`offsets_directory`: directory of the offsets instead of STUDY/.trackers. Raise UserError if the tracker is
        not ready, or another process follows the study with it."""
        kind = registry.get("tracker", name)
        kind.ready()
        self.name = name
        self._study = StudyDirectory(directory)
        content = reader_process.read(f"{directory}: reading its cells", directory / "study.json", self._study.read)
        self._home = (offsets_directory or directory / OFFSETS_FOLDER) / name
        self._lock = Lease(self._home, "tracker", "wait for it, or stop it")
        try:
            self._lock.acquire(tell=leases.warn)
        except OSError as error:
            raise UserError(
                f"{self._home} cannot be written ({error.strerror}), where the tracker notes how far it has come; "
                f"name another directory with --offsets DIR"
            ) from None
        self._offsets, self._report, token = _read(self._home / OFFSETS)
        self._stored_offsets = dict(self._offsets)
        self._token = token or uuid.uuid4().hex[:8]
        self._save()  # before anything is sent under the token
        self._tracker: Tracker = kind(str(content.get("study") or directory.name), directory.absolute(), self._token)
        self.errors: dict[str, str] = {}
        """Run, `records` for those of all runs, or `report` -> message of the error of its last attempt."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._tracker.close()
            self._stored_offsets |= self._offsets
            self._save()
        finally:
            self._lock.release()

    def look(self) -> None:
        """Send new points of every run and a new report. Failures are recorded in `errors` and tried again by the next
        call."""
        self._fence()
        self.errors.clear()
        description = f"{self._study.path}: reading its records"
        read = self._attempt("records", reader_process.call, description, READING, standings, self._study)
        for run, standing in read or ():
            before = self._offsets.get(run.key, START)
            offset = self._attempt(run.name, self._follow, run, before, standing)
            if offset is None or offset == before:
                continue
            self._offsets[run.key] = offset
            if self._tracker.keeps or offset.status in ENDED:
                self._stored_offsets[run.key] = offset
            elif run.key not in self._stored_offsets:
                self._stored_offsets[run.key] = START._replace(
                    id=offset.id
                )  # what to continue, should this process be killed
            self._save()
        digest = _digest(self._study.path / "report")
        if digest and digest != self._report and self._attempt("report", self._published):
            self._report = digest
            self._save()

    @property
    def summary(self) -> str:
        """Describe what the tracker holds."""
        last = max((offset.step for offset in self._offsets.values()), default=-1)
        return f"{self.name}: {count(len(self._offsets), 'run')}" + (f", up to step {last:,}" if last >= 0 else "")

    @property
    def ended(self) -> bool:
        """Whether no process works on the study."""
        return not reader_process.call(f"{self._study.path}: reading its leases", READING, _is_held, self._study)

    def _follow(self, run: FollowedRun, before: Offset, standing: tuple[int, str] | UserError) -> Offset:
        if isinstance(standing, UserError):
            raise standing
        return self._tracker.follow(run, before, _points, standing)

    def _published(self) -> bool:
        self._tracker.publish(report(self._study.path / "report"))
        return True

    def _attempt(self, subject: str, act: Callable[..., T], *args: Any) -> T | None:
        """Return `act(*args)`, or None if it raises anything; the error is recorded under `subject` and other runs go
        on."""
        try:
            return act(*args)
        except Exception as error:
            message = of_system(error) if isinstance(error, OSError) else ""
            self.errors[subject] = one_line(str(error) if isinstance(error, UserError) else message or repr(error))
            with suppress(Exception):
                self._tracker.forget()
            for key, offset in self._stored_offsets.items():  # what was sent since may be lost
                self._offsets[key] = offset
            return None

    def _fence(self) -> None:
        """Raise UserError if another process follows the study by now, as while this machine slept."""
        try:
            self._lock.fence()
        except Fenced as lost:
            raise UserError(f"{lost}, which follows the study now") from None

    def _save(self) -> None:
        self._fence()
        content = {
            "token": self._token,
            "report": self._report,
            "runs": {key: offset._asdict() for key, offset in self._stored_offsets.items()},
        }
        write_json(self._home / OFFSETS, content)


def follow(followers: Sequence[Following], done: Callable[[], bool], tell: Callable[[str], None]) -> None:
    """Look at a study with several trackers until `done()` is true, and once more then. `tell` gets each error once."""
    reported: set[str] = set()
    while True:
        last = done()
        for follower in followers:
            follower.look()
            new = {
                f"{follower.name}, {subject}: {error}": error
                for subject, error in follower.errors.items()
                if error not in reported
            }
            reported.update(new.values())
            for line in new:
                tell(line)
        if last:
            return
        until = time.monotonic() + (AGAIN if any(follower.errors for follower in followers) else EVERY)
        while time.monotonic() < until and not done():
            time.sleep(0.2)


def _points(run: FollowedRun, after: int, until: int) -> list[Point]:
    return reader_process.call(f"{run.directory}: reading its logs", READING, read_points, run, after, until)


def _is_held(study: StudyDirectory) -> bool:
    """Return whether a process works on a study or on a run of it. Call it in the separate process."""
    return RunDirectory(study.path).held() or any(run.held() for _, run in study.runs())


def standings(study: StudyDirectory) -> list[tuple[FollowedRun, tuple[int, str] | UserError]]:
    """Return the runs of a study whose cell records can be read, each with its `FollowedRun.standing`, or the error of
    a record that cannot be read. Call it in the separate process."""
    return [(run, _standing(run)) for run in runs(study)]


def _standing(run: FollowedRun) -> tuple[int, str] | UserError:
    try:
        return run.standing()
    except UserError as error:
        return error
    except Exception as error:  # of this run alone, whatever its record holds
        return UserError(f"{run.directory}: its record cannot be read ({one_line(repr(error))})")


def runs(study: StudyDirectory) -> list[FollowedRun]:
    """Return the runs of a study whose cell records can be read. Call it in the separate process."""
    name = str(study.read().get("study") or study.path.name)
    followed = []
    document = functools.cache(outside.document)  # one object for all seeds of a cell, which is sent once
    for cell_entry, run in study.runs():
        path = run.home.parent / "cell.json"
        cell = document(path) if path.exists() else None
        if isinstance(cell, dict) and isinstance(cell.get("cell"), str):
            seed = int(run.home.name.removeprefix("seed-"))
            followed.append(
                FollowedRun(name, run.home.absolute(), cell, seed, str(cell_entry.get("label_variant", "")))
            )
    return followed


def report(folder: Path) -> Report:
    """Return the figures, the table of results and all files of the report in a folder."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    pictures = {f"report/{path.stem}": path for path in files if path.suffix == ".png"}
    summary = folder / "summary.json"
    tables = {"report/results": _results(outside.read_document(summary))} if summary.exists() else {}
    return Report(pictures, tables, files)


def _results(summary: Any) -> Table:
    """Return the rows of a summary.json as a table; missing fields are empty or NaN."""
    rows = summary.get("rows") if isinstance(summary, dict) else None
    table_rows: list[list[str | float]] = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        seeds, score, final = row.get("seeds"), row.get("score"), row.get("final")
        numbers = [_number(_entry(final, name)) for name in ("estimate", "low", "high")]
        task = f"{row.get('suite', '')}/{row.get('task', '')}"
        table_rows.append([
            task, str(row.get("label", "")), str(_entry(score, "name") or ""), *numbers,
            float(len(seeds)) if isinstance(seeds, list) else math.nan, _number(row.get("steps")),
        ])  # fmt: skip
    return Table(RESULTS, table_rows)


def _entry(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _digest(folder: Path) -> str:
    """Return a digest of the names, sizes and times of a report's files; "" without a report."""
    if not (folder / "summary.json").is_file():
        return ""
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())]
    return hashlib.sha256(json.dumps(stats).encode()).hexdigest()[:16]


def _read(path: Path) -> tuple[dict[str, Offset], str, str]:
    """Return run -> offset, the report's digest and the token from a file; empty values if it is missing or damaged."""
    try:
        content = outside.read_document(path)
    except UserError:
        return {}, "", ""
    if not isinstance(content, dict) or not isinstance(content.get("runs"), dict):
        return {}, "", ""
    offsets = {}
    for key, offset in content["runs"].items():
        if isinstance(offset, Mapping) and set(offset) == set(Offset._fields):
            step, id_, status = (offset[name] for name in Offset._fields)
            if type(step) is int and isinstance(id_, str) and isinstance(status, str):
                offsets[key] = Offset(step, id_, status)
    report, token = (str(content.get(name) or "")[:64] for name in ("report", "token"))
    return offsets, report, token if token.isalnum() else ""
