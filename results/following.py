"""Follow a study while it is written. `Following.look` reads only the files that changed since the look before.

The study may be a stranger's: this process looks at names, sizes and times, and one long-lived separate process parses.
A damaged file concerns its own run or cell alone: what was read before stays, and `Following.faults` names the file.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from guidebench.harness.errors import UserError
from guidebench.harness.reader_process import Caller
from guidebench.harness.records import attempts
from guidebench.harness.records.study import RunDirectory
from guidebench.results import rows, store
from guidebench.results.evaluations import evaluations
from guidebench.results.reading import MEMORY, SECONDS
from guidebench.results.row_log import Curve, Growth, Sign, look_at, sign
from guidebench.results.store import CellRecord, Listing, RunRecord, StudyRecord

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Live(NamedTuple):
    """Progress that the worker of a run in training reports."""

    step: int
    rate: float | None
    """Environment steps per second."""
    score: float | None
    """Score of its last evaluation."""
    phase: str
    time: float
    """Time of the report, in seconds since the epoch."""


@dataclass
class _Cell:
    entry: Mapping[str, Any]
    signs: tuple[Sign | None, Sign | None] | None = None
    record: CellRecord | None = None
    seeds: Sequence[int] = ()
    fault: str = ""


@dataclass
class _Run:
    record: RunRecord
    """Its record; the status of a run whose worker was killed is "stopped"."""
    sign: Sign | None = None
    written: str = "waiting"
    """Status in the run's file."""
    packed: Sign | None = None
    """The Parquet file that `curve` was read from."""
    log: Path | None = None
    """The growing log that `curve` was read from."""
    log_sign: Sign | None = None
    """Sign of that log at the last look; None while there is more to read."""
    curve: Curve | None = None
    fault: str = ""
    unread: str = ""
    """Why its evaluations cannot be read."""
    live: Live | None = None
    path: Path = Path()
    """Where its files are being written: its directory, or its newest attempt directory."""
    is_changed: bool = False
    """Whether the last look has changed its evaluations."""


class Following:
    """A study's directory, which may not exist yet; a context manager, since a process reads its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.study: StudyRecord | None = None
        """The study as far as its files can be read; None while there is no study.json."""
        self.problem = ""
        """Why there is no study."""
        self._reader = Caller(MEMORY)
        self._ended: list[Path] = []
        """Logs that the separate process need not remember any more, which its next call is to say."""
        self._sign: Sign | None = None
        self._listing: Listing | None = None
        self._cells: dict[str, _Cell] = {}
        self._runs: dict[str, _Run] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def look(self) -> set[str]:
        """Read what has changed; return the ids of the cells whose record, runs or evaluations changed."""
        before, listed = set(self._cells), self._listing
        if not self._list():
            return before
        changed = before ^ set(self._cells)
        for cell_id, cell in self._cells.items():
            if self._cell(cell_id, cell):
                changed.add(cell_id)
        present = {directory for directory, _, _ in self._places()}
        self._ended += [run.log for name, run in self._runs.items() if name not in present and run.log is not None]
        self._runs = {directory: run for directory, run in self._runs.items() if directory in present}
        changed |= self._look_at_runs()
        if self._listing is not None and (changed or self._listing is not listed):
            cells = tuple(cell.record for cell in self._cells.values() if cell.record is not None)
            records = tuple(run.record for run in self._runs.values())
            self.study = StudyRecord(self._listing.study, self.directory, self._listing.command, cells, records)
        return changed

    @property
    def curves(self) -> dict[str, dict[int, Curve]]:
        """Cell id -> seed -> evaluations, of the runs that have any."""
        curves: dict[str, dict[int, Curve]] = {}
        for run in self._runs.values():
            if run.curve is not None:
                curves.setdefault(run.record.cell.id, {})[run.record.seed] = run.curve
        return curves

    @property
    def live(self) -> dict[str, Live]:
        """Run directory -> progress reported by its worker, for the runs in training."""
        return {directory: run.live for directory, run in self._runs.items() if run.live is not None}

    @property
    def faults(self) -> list[str]:
        """What cannot be read, and why."""
        messages = [self.problem, *(cell.fault for cell in self._cells.values())]
        messages += [fault for run in self._runs.values() for fault in (run.fault, run.unread)]
        return [fault for fault in dict.fromkeys(messages) if fault]

    def stamp(self, directory: str) -> tuple[object, ...] | None:
        """Return a value that changes whenever a run's record or evaluations change; None if there is no such run, or
        it has not begun."""
        run = self._runs.get(directory)
        if run is None or run.written == "waiting":
            return None
        return run.sign, run.packed, None if run.curve is None else (len(run.curve.steps), int(run.curve.episodes[-1]))

    def written_at(self, directory: str) -> int:
        """Return when a run's record last changed, in nanoseconds since the epoch, or 0 if it has none."""
        run = self._runs.get(directory)
        return 0 if run is None or run.sign is None else run.sign[2]

    def _places(self) -> Iterator[tuple[str, CellRecord, int]]:
        for cell in self._cells.values():
            if cell.record is not None:
                for seed in cell.seeds:
                    yield f"{cell.record.directory}/seed-{seed}", cell.record, seed

    def _list(self) -> bool:
        """Read study.json if it changed; return whether there is a study."""
        path = self.directory / "study.json"
        now = sign(path)
        if now is None:
            state = "has no study.json yet" if self.directory.exists() else "does not exist yet"
            self.problem = f"{self.directory} {state}"
            self._sign, self._listing, self.study, self._cells, self._runs = None, None, None, {}, {}
            return False
        if now != self._sign:
            self._sign = now
            try:
                self._listing, self.problem = store.listing(path), ""
            except UserError as error:
                self.problem = str(error)
                return self._listing is not None
            former = self._cells
            self._cells = {
                name: former[name] if name in former and former[name].entry == entry else _Cell(entry)
                for name, entry in self._listing.cells.items()
            }
        return self._listing is not None

    def _cell(self, cell_id: str, cell: _Cell) -> bool:
        """Read a cell's record, and which seeds it has, if they changed; return whether they did."""
        directory = cell.entry.get("directory")
        home = self.directory / directory if isinstance(directory, str) else self.directory
        now = sign(home / "cell.json"), sign(home)
        if now == cell.signs:
            return False
        cell.signs = now
        before, path = (cell.record, cell.seeds, cell.fault), self.directory / "study.json"
        try:
            record = store.cell_record(self.directory, path, cell_id, cell.entry)
            cell.record, cell.seeds = record, store.seeds(self.directory, path, record, cell.entry)
            cell.fault = ""
        except UserError as error:
            cell.fault = str(error)
        return (cell.record, cell.seeds, cell.fault) != before

    def _look_at_runs(self) -> set[str]:
        """Read the records and evaluations of runs that changed; return the ids of their cells."""
        former: list[tuple[_Run, tuple[RunRecord, str, str]]] = []
        for directory, record, seed in self._places():
            run = self._runs.setdefault(directory, _Run(RunRecord(record, seed, directory, "waiting", 0, 0, None, {})))
            before = (run.record, run.fault, run.unread)
            if self._read_record(run, record, seed):
                former.append((run, before))
        self._read_progress([run for run, _ in former])
        self._read_evaluations([run for run, _ in former])
        return {
            run.record.cell.id
            for run, before in former
            if run.is_changed or (run.record, run.fault, run.unread) != before
        }

    def _read_record(self, run: _Run, cell: CellRecord, seed: int) -> bool:
        """Read a run's record if it changed; return whether its other files may have changed since the last look."""
        home = self.directory / run.record.directory
        if run.written == "finished" and run.record.cell is cell and sign(home / "run.json") == run.sign:
            return False
        number = attempts.newest(home)
        run.path = attempts.path_of(home, number)
        now = sign(run.path / "run.json")
        if now != run.sign or run.record.cell is not cell:
            run.sign = now
            try:
                run.record = store.run_record(self.directory, cell, seed, run.path.name if number else "")
                run.written, run.fault = run.record.status, ""
            except UserError as error:
                run.fault = str(error)
                run.record = replace(run.record, cell=cell)
        return True

    def _read_progress(self, runs: Sequence[_Run]) -> None:
        """Update whether workers train the runs, and the progress that these report."""
        for run in runs:
            run.live = None
        running = [run for run in runs if run.written == "running"]
        homes = [self.directory / run.record.directory for run in running]
        for run, content in zip(running, self._apart("the progress of its runs", _progress, homes), strict=True):
            if isinstance(content, Exception):
                continue  # whether a worker holds the run is not known
            status = "running" if isinstance(content, dict) else "stopped"
            if run.record.status != status:
                run.record = replace(run.record, status=status)
            run.live = _live(content) if isinstance(content, dict) else None

    def _read_evaluations(self, runs: Sequence[_Run]) -> None:
        """Read the evaluations of runs if they changed; `is_changed` says so."""
        packed, growing = list[_Run](), list[_Run]()
        for run in runs:
            before = run.log
            run.is_changed = self._choose_file(run, packed, growing)
            if before is not None and run.log != before:
                self._ended.append(before)
        logs = [(run.log, run.record) for run in growing]
        look = partial(look_at, ended=self._ended)
        if logs:
            self._ended = []
        for run, growth in zip(growing, self._apart("its new rows", look, logs), strict=True):
            if isinstance(growth, Growth):
                run.is_changed = growth.changed
                run.log_sign, run.curve, run.unread = growth[1:]
            else:
                run.unread = str(growth)
        records = [run.record for run in packed]
        curves = self._apart("its evaluations", partial(_curves, self.directory), records)
        for run, curve in zip(packed, curves, strict=True):
            if isinstance(curve, Exception):
                run.unread = str(curve)
            else:
                run.unread, run.curve = "", curve

    def _choose_file(self, run: _Run, packed: list[_Run], growing: list[_Run]) -> bool:
        """Add a run to `packed` if its Parquet file is to be read, to `growing` if its log is. Return whether its
        evaluations changed otherwise, or will be read from a Parquet file."""
        path = rows.file_of(run.path, rows.EVALUATIONS, run.written == "finished")
        if path is None:
            is_removed = run.curve is not None and run.written == "waiting"
            if is_removed:
                run.curve = run.log = run.log_sign = run.packed = None
            return is_removed
        now = sign(path)
        if path.suffix == ".parquet":
            if run.path.name.startswith(attempts.PREFIX) or now == run.packed:
                return False  # an attempt's is about to be moved into the run
            run.packed, run.log, run.log_sign = now, None, None
            packed.append(run)
            return True
        if run.log != path:
            run.log, run.log_sign, run.packed = path, None, None
        if now is not None and now != run.log_sign:
            run.log_sign = now  # what cannot be read is not read again before it changes
            growing.append(run)
        return False

    def _apart(
        self, subject: str, function: Callable[[Sequence[Item]], Sequence[Answer]], items: Sequence[Item]
    ) -> list[Answer | Exception]:
        """Return what a function that is called in the separate process returns for each item; its error for an item
        that cannot be read, which halving the items finds."""
        if not items:
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [*self._reader(f"{self.directory}: reading {subject}", SECONDS, function, items)]
        except (UserError, OSError) as error:
            if len(items) == 1:
                return [error]
        half = len(items) // 2
        return self._apart(subject, function, items[:half]) + self._apart(subject, function, items[half:])


def _progress(homes: Sequence[Path]) -> list[dict[str, Any] | None]:
    """Return the content of the progress file of runs; None for a run that no worker holds."""
    return [run.live() if run.held() else None for run in map(RunDirectory, homes)]


def _curves(directory: Path, records: Sequence[RunRecord]) -> list[Curve | None]:
    """Return the evaluations in the Parquet files of runs; None for a run without any."""
    cells = tuple({record.cell.id: record.cell for record in records}.values())
    read = evaluations(StudyRecord("", directory, (), cells, tuple(records)))
    of_runs = [read.get((record.cell.id, record.seed)) for record in records]
    return [
        run and Curve(run.steps, run.episodes, run.scores, run.success, run.returns, run.variances) for run in of_runs
    ]


def _live(content: Mapping[str, Any]) -> Live | None:
    """Return the progress in a run's progress file; None if the content is not as workers write it."""
    step, time, rate, score = (_number(content.get(name)) for name in ("step", "time", "rate", "score"))
    if step is None or time is None or step < 0:
        return None
    return Live(int(step), rate, score, str(content.get("phase") or "")[:60], time)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
