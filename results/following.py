"""Follow a study while it is written. `Following.look` reads only the files that changed since the look before.

A damaged file concerns its own run or cell alone: what was read before stays, and `Following.faults` names the file.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from guidebench.harness.errors import UserError
from guidebench.harness.records import attempts
from guidebench.harness.records.study import RunDirectory
from guidebench.results import rows, store
from guidebench.results.reading import Reader
from guidebench.results.row_log import Curve, RowLog, Sign, sign
from guidebench.results.store import CellRecord, Listing, RunRecord, StudyRecord


class Live(NamedTuple):
    """What the worker of a run in training says of it."""

    step: int
    rate: float | None
    """Environment steps per second."""
    score: float | None
    """Score of its last evaluation."""
    phase: str
    time: float
    """When it said so, in seconds since the epoch."""


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
    """The status in its file."""
    packed: Sign | None = None
    """The Parquet file that `curve` was read from."""
    growing: RowLog | None = None
    curve: Curve | None = None
    fault: str = ""
    unread: str = ""
    """Why its evaluations cannot be read."""
    live: Live | None = None


class Following:
    """A study's directory, which may not exist yet; a context manager, since a process reads its Parquet files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.study: StudyRecord | None = None
        """The study as far as its files can be read; None while there is no study.json."""
        self.problem = ""
        """Why there is no study."""
        self._reader = Reader()
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
        """Read what has changed; return the ids of the cells whose record, runs or evaluations did."""
        before, listed = set(self._cells), self._listing
        if not self._list():
            return before
        changed = before ^ set(self._cells)
        for cell_id, cell in self._cells.items():
            if self._cell(cell_id, cell):
                changed.add(cell_id)
        there = {directory for directory, _, _ in self._places()}
        self._runs = {directory: run for directory, run in self._runs.items() if directory in there}
        packed: list[_Run] = []
        for directory, record, seed in self._places():
            run = self._runs.setdefault(directory, _Run(RunRecord(record, seed, directory, "waiting", 0, 0, None, {})))
            if self._run(run, record, seed, packed):
                changed.add(record.id)
        self._unpack(packed)
        if self._listing is not None and (changed or self._listing is not listed):
            cells = tuple(cell.record for cell in self._cells.values() if cell.record is not None)
            records = tuple(run.record for run in self._runs.values())
            self.study = StudyRecord(self._listing.study, self.directory, self._listing.command, cells, records)
        return changed

    @property
    def curves(self) -> dict[str, dict[int, Curve]]:
        """Cell id -> seed -> evaluations, of the runs that have any."""
        found: dict[str, dict[int, Curve]] = {}
        for run in self._runs.values():
            if run.curve is not None:
                found.setdefault(run.record.cell.id, {})[run.record.seed] = run.curve
        return found

    @property
    def live(self) -> dict[str, Live]:
        """Run directory -> what its worker says, of the runs in training."""
        return {directory: run.live for directory, run in self._runs.items() if run.live is not None}

    @property
    def faults(self) -> list[str]:
        """What cannot be read, and why."""
        found = [self.problem, *(cell.fault for cell in self._cells.values())]
        found += [fault for run in self._runs.values() for fault in (run.fault, run.unread)]
        return [fault for fault in dict.fromkeys(found) if fault]

    def stamp(self, directory: str) -> tuple[object, ...] | None:
        """Return what changes when a run's record or evaluations change, or None if there is no such run, or it has
        not begun."""
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
            kept = self._cells
            self._cells = {
                name: kept[name] if name in kept and kept[name].entry == entry else _Cell(entry)
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

    def _run(self, run: _Run, cell: CellRecord, seed: int, packed: list[_Run]) -> bool:
        """Read a run's record and its evaluations if they changed; return whether they did. A changed Parquet file is
        added to `packed` instead of being read."""
        home = self.directory / run.record.directory
        if run.written == "finished" and run.record.cell is cell and sign(home / "run.json") == run.sign:
            return False
        before = (run.record, run.fault, run.unread)
        number = attempts.newest(home)
        beside = attempts.path_of(home, number)
        now = sign(beside / "run.json")
        if now != run.sign or run.record.cell is not cell:
            run.sign = now
            try:
                run.record = store.run_record(self.directory, cell, seed, beside.name if number else "")
                run.written, run.fault = run.record.status, ""
            except UserError as error:
                run.fault = str(error)
                run.record = replace(run.record, cell=cell)
        self._worker(run, home)
        return self._evaluations(run, beside, packed) or (run.record, run.fault, run.unread) != before

    def _worker(self, run: _Run, home: Path) -> None:
        """Look whether a worker trains the run, and what it says."""
        run.live = None
        if run.written != "running":
            return
        directory = RunDirectory(home)
        held = directory.held()
        status = "running" if held else "stopped"
        if run.record.status != status:
            run.record = replace(run.record, status=status)
        if held:
            with contextlib.suppress(UserError, OSError):
                run.live = _live(directory.live())

    def _evaluations(self, run: _Run, directory: Path, packed: list[_Run]) -> bool:
        path = rows.file_of(directory, rows.EVALUATIONS, run.written == "finished")
        if path is None:
            gone = run.curve is not None and run.written == "waiting"
            if gone:
                run.curve = run.growing = run.packed = None
            return gone
        if path.suffix == ".parquet":
            if directory.name.startswith(attempts.PREFIX) or sign(path) == run.packed:
                return False  # an attempt's is about to be moved into the run
            run.packed, run.growing = sign(path), None
            packed.append(run)
            return True
        if run.growing is None or run.growing.path != path:
            run.growing, run.packed = RowLog(path, run.record), None
        if not run.growing.look():
            return False
        run.curve, run.unread = run.growing.curve, run.growing.fault
        return True

    def _unpack(self, runs: Sequence[_Run]) -> None:
        """Read the Parquet files of runs, in halves where one of them is damaged."""
        if not runs:
            return
        records = tuple(run.record for run in runs)
        cells = tuple({record.cell.id: record.cell for record in records}.values())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._reader.read(StudyRecord("", self.directory, (), cells, records))
        except (UserError, OSError) as error:
            if len(runs) == 1:
                runs[0].unread = str(error)
            else:
                self._unpack(runs[: len(runs) // 2])
                self._unpack(runs[len(runs) // 2 :])
            return
        for run in runs:
            read = found.get((run.record.cell.id, run.record.seed))
            run.unread = ""
            run.curve = read and Curve(
                read.steps, read.episodes, read.scores, read.success, read.returns, read.variances
            )


def _live(content: Mapping[str, Any]) -> Live | None:
    """Return the content of a run's file of progress, or None if it is not as workers write it."""
    step, time, rate, score = (_number(content.get(name)) for name in ("step", "time", "rate", "score"))
    if step is None or time is None or step < 0:
        return None
    return Live(int(step), rate, score, str(content.get("phase") or "")[:60], time)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
