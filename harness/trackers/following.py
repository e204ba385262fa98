"""Follows all runs of a study with one tracker, and keeps how far it has come in STUDY/.trackers/NAME."""

from __future__ import annotations

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
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.leases import Fenced, Lease
from guidebench.harness.records.study import RunDirectory, StudyDirectory
from guidebench.harness.texts import one_line
from guidebench.harness.trackers.base import ENDED, START, Offset, Report, Table, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point, read_points

KEPT = ".trackers"
"""Directory of the offsets, in a study."""
OFFSETS = "offsets.json"
EVERY = 2.0
"""Seconds between two looks at a study (choice: checkpoints, which make points final, are further apart)."""
AGAIN = 30.0
"""Seconds from an error of a tracker to the next attempt (choice)."""
READING = 300.0
"""Seconds that reading a run's logs may take."""
RESULTS = ("task", "row", "score", "mean", "low", "high", "seeds", "steps")
"""Columns of the table of results."""
T = TypeVar("T")


def ready(names: Sequence[str]) -> None:
    """Raise UserError if a tracker is unknown, or lacks a package or a login."""
    for name in names:
        registry.get("tracker", name).ready()


class Following:
    """One tracker and one study: `look()` sends what is new. A context manager."""

    def __init__(self, directory: Path, name: str, kept: Path | None = None) -> None:
        """`kept`: directory of the offsets instead of STUDY/.trackers. Raise UserError if the tracker is not ready, or
        another process follows the study with it."""
        kind = registry.get("tracker", name)
        kind.ready()
        self.name = name
        self._study = StudyDirectory(directory)
        content = self._study.read()
        self._home = (kept or directory / KEPT) / name
        self._lock = Lease(self._home, "tracker", "wait for it, or stop it")
        try:
            self._lock.acquire(tell=leases.warn)
        except OSError as error:
            raise UserError(
                f"{self._home} cannot be written ({error.strerror}), where the tracker notes how far it has come; "
                f"name another directory with --offsets DIR"
            ) from None
        self._offsets, self._report, token = _read(self._home / OFFSETS)
        self._stored = dict(self._offsets)
        self._token = token or uuid.uuid4().hex[:8]
        self._save()  # before anything is sent under the token
        self._tracker: Tracker = kind(str(content.get("study") or directory.name), directory.absolute(), self._token)
        self._reader = reader_process.Caller()
        self.errors: dict[str, str] = {}
        """Run, or `report` -> what its last attempt raised."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._tracker.close()
            self._stored |= self._offsets
            self._save()
        finally:
            self._reader.close()
            self._lock.release()

    def look(self) -> None:
        """Send what is new of every run and of the report. What fails is in `errors`, and is tried again by the next
        look."""
        self._fence()
        self.errors.clear()
        for run in runs(self._study):
            before = self._offsets.get(run.key, START)
            found = self._attempt(run.name, self._tracker.follow, run, before, self._points)
            if found is None or found == before:
                continue
            self._offsets[run.key] = found
            if self._tracker.keeps or found.status in ENDED:
                self._stored[run.key] = found
            elif run.key not in self._stored:
                self._stored[run.key] = START._replace(id=found.id)  # what to continue, should this process be killed
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
        held = RunDirectory(self._study.path).held()
        return not held and not any(run.held() for _, run in self._study.runs())

    def _published(self) -> bool:
        self._tracker.publish(report(self._study.path / "report"))
        return True

    def _attempt(self, what: str, act: Callable[..., T], *given: Any) -> T | None:
        """Return what `act` returns, or None if it raises: a library may raise anything, and other runs go on."""
        try:
            return act(*given)
        except Exception as error:
            told = of_system(error) if isinstance(error, OSError) else ""
            self.errors[what] = one_line(str(error) if isinstance(error, UserError) else told or repr(error))
            with suppress(Exception):
                self._tracker.forget()
            for key, offset in self._stored.items():  # what was sent since may be lost
                self._offsets[key] = offset
            return None

    def _points(self, run: FollowedRun, after: int, until: int) -> list[Point]:
        return self._reader(f"{run.directory}: reading its logs", READING, read_points, run, after, until)

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
            "runs": {key: offset._asdict() for key, offset in self._stored.items()},
        }
        write_json(self._home / OFFSETS, content)


def follow(each: Sequence[Following], done: Callable[[], bool], tell: Callable[[str], None]) -> None:
    """Look at a study with several trackers until `done()` is true, and once more then. `tell` gets each error once."""
    told: set[str] = set()
    while True:
        last = done()
        for one in each:
            one.look()
            new = {f"{one.name}, {what}: {error}": error for what, error in one.errors.items() if error not in told}
            told.update(new.values())
            for line in new:
                tell(line)
        if last:
            return
        until = time.monotonic() + (AGAIN if any(one.errors for one in each) else EVERY)
        while time.monotonic() < until and not done():
            time.sleep(0.2)


def runs(study: StudyDirectory) -> list[FollowedRun]:
    """Return the runs of a study whose cell records can be read."""
    name = str(study.read().get("study") or study.path.name)
    found = []
    for entry, run in study.runs():
        path = run.home.parent / "cell.json"
        cell = outside.read_document(path) if path.exists() else None
        if isinstance(cell, dict) and isinstance(cell.get("cell"), str):
            seed = int(run.home.name.removeprefix("seed-"))
            found.append(FollowedRun(name, run.home.absolute(), cell, seed, str(entry.get("label_variant", ""))))
    return found


def report(folder: Path) -> Report:
    """Return what goes along of the report in a folder: figures, the table of results, and all files."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    pictures = {f"report/{path.stem}": path for path in files if path.suffix == ".png"}
    summary = folder / "summary.json"
    tables = {"report/results": _results(outside.read_document(summary))} if summary.exists() else {}
    return Report(pictures, tables, files)


def _results(summary: Any) -> Table:
    """Return the rows of a summary.json as a table; what is not there is empty."""
    rows = summary.get("rows") if isinstance(summary, dict) else None
    found: list[list[str | float]] = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        seeds, score, final = row.get("seeds"), row.get("score"), row.get("final")
        numbers = [_number(_entry(final, name)) for name in ("estimate", "low", "high")]
        task = f"{row.get('suite', '')}/{row.get('task', '')}"
        found.append([
            task, str(row.get("label", "")), str(_entry(score, "name") or ""), *numbers,
            float(len(seeds)) if isinstance(seeds, list) else math.nan, _number(row.get("steps")),
        ])  # fmt: skip
    return Table(RESULTS, found)


def _entry(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _digest(folder: Path) -> str:
    """Return what changes with the files of a report; "" without a report."""
    if not (folder / "summary.json").is_file():
        return ""
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())]
    return hashlib.sha256(json.dumps(stats).encode()).hexdigest()[:16]


def _read(path: Path) -> tuple[dict[str, Offset], str, str]:
    """Return offsets, digest of the report and token from a file; nothing from one that is missing or damaged."""
    try:
        content = read_json(path)
    except UserError:
        return {}, "", ""
    if not isinstance(content, dict) or not isinstance(content.get("runs"), dict):
        return {}, "", ""
    found = {}
    for key, entry in content["runs"].items():
        if isinstance(entry, Mapping) and set(entry) == set(Offset._fields):
            step, id_, status = (entry[name] for name in Offset._fields)
            if type(step) is int and isinstance(id_, str) and isinstance(status, str):
                found[key] = Offset(step, id_, status)
    report, token = (str(content.get(name) or "")[:64] for name in ("report", "token"))
    return found, report, token if token.isalnum() else ""
