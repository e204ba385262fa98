"""Read a study's directory: its cells and runs.

The files are a stranger's for every command but the `bench run` that writes them: they are parsed in the separate
process, and every field is checked.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness import claims, logs, reader_process
from guidebench.harness.claims import Claims
from guidebench.harness.errors import UserError
from guidebench.harness.logs import Log
from guidebench.harness.records import formatting, parts, schema
from guidebench.harness.records.files import read_json
from guidebench.harness.records.parts import RecordedPart
from guidebench.harness.records.study import lost_rows
from guidebench.harness.scores import SUCCESS, Score

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("cell", "suite", "task", "method", "learner", "backend", "model", "profile", "seed")
"""Columns of an evaluation row that identify its run; the study is not among them, since studies may be copied."""


LARGEST = 2**24
"""Most bytes of a JSON document: 16 MiB, a study of about 70,000 cells."""
PER_FILE, ENTRY = 0.1, 250
"""Seconds beyond `reader_process.SECONDS` for the files of each cell, and bytes of a cell's entry in study.json."""


class MatrixPlace(NamedTuple):
    """A cell's place in a matrix: its name there, and the id of its reference cell (its own id for the reference
    cell)."""

    kind: str
    name: str
    reference: str


@dataclass(frozen=True)
class StageRecord:
    """A pre-training stage of a cell, from the record inside the cell's."""

    id: str
    suite: str
    task: str
    method: str
    steps: int
    settings: Mapping[str, Any]
    parts: Mapping[str, RecordedPart]


@dataclass(frozen=True)
class CellRecord:
    """One resolved configuration on one task; `directory` is relative to the study."""

    id: str
    directory: str
    suite: str
    task: str
    method: str
    learner: str
    backend: str
    model: str
    profile: str
    steps: int
    variant: str
    label: str
    settings: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, Any]
    parts: Mapping[str, RecordedPart]
    """Role (learner, replay, …) -> part; empty for runs of other programs."""
    matrix: MatrixPlace | None = None
    score: Score = SUCCESS
    """Score of its evaluation episodes."""
    logs: Mapping[str, Log] = field(default_factory=dict)
    """Logs that its parts declare, in addition to those of every run."""
    stages: tuple[StageRecord, ...] = ()
    """Its pre-training stages, the first one first."""

    @property
    def task_id(self) -> str:
        """Return the name SUITE/TASK."""
        return f"{self.suite}/{self.task}"

    @property
    def answering(self) -> tuple[RecordedPart, ...]:
        """Models, and other parts that answer questions, of the cell and its stages."""
        every = (self.parts, *(stage.parts for stage in self.stages))
        return tuple(part for parts in every for part in parts.values() if part.answers)

    @property
    def before(self) -> int:
        """Environment steps per seed of the pre-training stages from which its runs begin."""
        return sum(stage.steps for stage in self.stages)

    @property
    def total(self) -> int:
        """Environment steps per seed, those of its pre-training stages included."""
        return self.before + self.steps


@dataclass(frozen=True)
class RunRecord:
    """One seed of a cell; `directory` is relative to the study, and `step` of `steps` environment steps are done."""

    cell: CellRecord
    seed: int
    directory: str
    status: str
    step: int
    steps: int
    error: str | None
    provenance: Mapping[str, Any]


class ClaimsRecord(NamedTuple):
    """The claims of a study (`harness/claims.py`), and its cells of their rows."""

    content: Claims
    rows: Mapping[str, tuple[str, ...]]
    """Row, its words joined by a space (`claims.key_of`) -> ids of its cells: one on each task, or for a trend one at
    each value."""

    @property
    def baselines(self) -> tuple[str, ...]:
        """Return the ids of the cells with which the primary claims compare, those of the first claim first."""
        baseline_rows = [claim.second for claim in self.content.claims if claim.primary and claim.second is not None]
        ids = (id for row in baseline_rows for id in self.rows[claims.key_of(row)])
        return tuple(dict.fromkeys(ids))


@dataclass(frozen=True, repr=False)
class StudyRecord:
    """The cells of one command and their runs, in the command's order. `print(study)` shows a line and the
    errors of runs; a notebook shows a table of runs."""

    name: str
    directory: Path
    command: tuple[str, ...]
    cells: tuple[CellRecord, ...]
    runs: tuple[RunRecord, ...]
    claims: ClaimsRecord | None = None
    """What its runs are to show; None for a study without claims."""

    @functools.cached_property
    def logs(self) -> Mapping[str, Log]:
        """The logs of every run, followed by those that any cell declares"""
        return {**schema.LOGS, **{name: log for cell in reversed(self.cells) for name, log in cell.logs.items()}}

    def __repr__(self) -> str:
        runs = ((f"{run.cell.directory}, seed {run.seed}", run.status, run.error) for run in self.runs)
        return formatting.report(self.name, self.directory, runs)

    def _repr_html_(self) -> str:
        rows = [
            (run.cell.suite, run.cell.task, run.cell.label, str(run.seed), run.status,
             f"{run.step:,} of {run.steps:,}", formatting.last_line(run.error))
            for run in self.runs
        ]  # fmt: skip
        caption = formatting.line(self.name, self.directory, (run.status for run in self.runs))
        return formatting.table(caption, ("suite", "task", "row", "seed", "status", "steps", "error"), rows)


def study(directory: str | Path) -> StudyRecord:
    """Return the study in a directory; raise UserError if there is none or its files do not fit the schema."""
    root = Path(directory)
    advice = "give the directory that `bench run … output=DIR` wrote (it holds study.json)"
    if not root.exists():
        raise UserError(f"no study at {root}: the directory does not exist; {advice}")
    if not root.is_dir():
        raise UserError(f"{root} is a file, not a study; {advice}")
    path = root / "study.json"
    if not path.is_file():
        state = "is empty" if not any(root.iterdir()) else "has no study.json"
        raise UserError(f"{root} is not a study: it {state}; {advice}")
    seconds = reader_process.SECONDS + PER_FILE * (path.stat().st_size / ENTRY)
    return reader()(f"{root}: reading its records", seconds, _study, root)


@functools.cache
def reader() -> reader_process.Caller:
    """Return the process that reads studies, which ends with this one. It may use half of the memory, since own studies
    may be large."""
    return reader_process.Caller(
        max(reader_process.MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    )


def _study(root: Path) -> StudyRecord:
    """Return the study in a directory that has a study.json. Call it in the separate process."""
    path = root / "study.json"
    listed = listing(path)
    cells: list[CellRecord] = []
    run_records: list[RunRecord] = []
    for cell_id, cell_entry in listed.cells.items():
        cell = cell_record(root, path, cell_id, cell_entry)
        if cell.matrix is not None and cell.matrix.reference not in listed.cells:
            raise UserError(f"{path}: cell {cell_id} is compared with {cell.matrix.reference!r}, which is not listed")
        cells.append(cell)
        run_records.extend(run_record(root, cell, seed) for seed in seeds(root, path, cell, cell_entry))
    present = {path.parent.relative_to(root).as_posix() for path in root.glob("*/*/*/cell.json")}
    strays = sorted(present - {cell.directory for cell in cells})
    if strays:
        warnings.warn(f"{root}: left out, since study.json does not list them: {', '.join(strays)}", stacklevel=2)
    claims_record = _claims(path, listed, {cell.id: cell for cell in cells})
    return StudyRecord(listed.study, root, listed.command, tuple(cells), tuple(run_records), claims_record)


def _claims(path: Path, listed: Listing, cells: Mapping[str, CellRecord]) -> ClaimsRecord | None:
    """Return the claims of a study. Raise UserError for a claims.json that is not the one that the study ran with, and
    for a cell that is not listed or has other settings than the words of its row."""
    file = path.with_name(claims.CLAIMS)
    if listed.claims is None:
        return None
    from guidebench.results import claimed_words  # imports the grammar of commands

    record = claims.read(file)
    rows = claims.rows_of(listed.claims, record, str(path))
    for row in record.rows:
        of_row = []
        for cell_id in rows[claims.key_of(row)]:
            if (cell := cells.get(cell_id)) is None:
                raise UserError(f"{path}: its claims name the cell {cell_id!r}, which is not listed")
            of_row.append(cell)
        claimed_words.check(record, row, of_row, str(path))
    return ClaimsRecord(record, rows)


class Listing(NamedTuple):
    """The content of study.json."""

    study: str
    command: tuple[str, ...]
    cells: Mapping[str, Mapping[str, Any]]
    """Cell id -> its directory, its seeds and its place in a matrix."""
    claims: Any = None
    """The entry of the study's claims, not checked yet; None without claims."""


def listing(path: Path) -> Listing:
    """Return the content of a study.json; raise UserError if it does not fit the schema."""
    content = document(path)
    cells = _field(path, content, "cells", dict)
    if not cells:
        raise UserError(f"{path} names no cells, so there is nothing to read; run the study first")
    for cell_id, cell_entry in cells.items():
        if not isinstance(cell_entry, dict):
            raise UserError(f"{path}: cells.{cell_id} is {cell_entry!r}; expected an object with directory and seeds")
    command = tuple(str(word) for word in _field(path, content, "command", list, []))
    return Listing(_field(path, content, "study", str, path.parent.name), command, cells, content.get("claims"))


def run(directory: str | Path) -> StudyRecord:
    """Return a study that contains only the run in a directory, regardless of the state of other runs.

    Raises UserError if the run has not started or its files do not fit the schema.
    """
    path = Path(directory).absolute()
    seed = path.name.removeprefix("seed-")
    if path.name == seed or not seed.isdecimal() or not (path.parent / "cell.json").is_file():
        raise UserError(f"{directory} is not a run; give a directory such as STUDY/SUITE/TASK/METHOD-CELL/seed-0")
    if not (path / "run.json").is_file():
        raise UserError(
            f"{directory} has not begun, so there is nothing to show; `bench status STUDY` tells of all runs"
        )
    return reader()(f"{directory}: reading its records", reader_process.SECONDS, _run, path, int(seed))


def _run(path: Path, seed: int) -> StudyRecord:
    """Return the study of one run. Call it in the separate process."""
    root = path.parents[3]
    place = {"directory": path.parent.relative_to(root).as_posix()}
    file, named, command = root / "study.json", root.name, tuple[str, ...]()
    identity = _field(path.parent / "cell.json", document(path.parent / "cell.json"), "cell", str)
    try:
        content = document(file)
        named = _field(file, content, "study", str, root.name)
        command = tuple(str(word) for word in _field(file, content, "command", list, []))
        cell = cell_record(root, file, identity, {**_field(file, content["cells"], identity, dict), **place})
    except (UserError, KeyError, TypeError, RecursionError) as error:
        warnings.warn(f"what the study says of this run is left out: {error}", stacklevel=2)
        cell = cell_record(root, file, identity, place)
    return StudyRecord(named, root, command, (cell,), (run_record(root, cell, seed),))


def runs(source: str | Path | StudyRecord) -> pd.DataFrame:
    """Return a table with one row per run: identity, variant, label, status, step, steps, error, and directory relative
    to the study."""
    import pandas as pd

    opened = source if isinstance(source, StudyRecord) else study(source)
    names = [*IDENTITY, "variant", "label", "status", "step", "steps", "error", "directory"]
    return pd.DataFrame(
        [
            {**identity(run), "status": run.status, "step": run.step, "steps": run.steps, "error": run.error or ""}
            for run in opened.runs
        ],
        columns=names,
    )


def identity(run: RunRecord) -> dict[str, Any]:
    """Return a run's identifying columns in every table: `IDENTITY`, then variant, label and directory."""
    cell = run.cell
    named = {name: getattr(cell, "id" if name == "cell" else name) for name in IDENTITY if name != "seed"}
    return {**named, "seed": run.seed, "variant": cell.variant, "label": cell.label, "directory": run.directory}


def cell_record(root: Path, study_path: Path, cell_id: str, cell_entry: Mapping[str, Any]) -> CellRecord:
    """Return the record of a cell; `cell_entry`: its entry in study.json."""
    directory = _field(study_path, cell_entry, "directory", str)
    inside = (root / directory).resolve()
    if not inside.is_relative_to(root.resolve()) or inside == root.resolve() or not directory.isprintable():
        raise UserError(f"{study_path}: the directory {directory!r} of cell {cell_id} lies outside the study")
    place = _place(study_path, cell_entry)
    path = root / directory / "cell.json"
    if not path.is_file():  # planned but not started: only the directory's name is known
        suite, task, name = [*Path(directory).parts, "", "", ""][:3]
        method = name.rpartition("-")[0] or name
        return CellRecord(cell_id, directory, suite, task, method, "", "", "", "", 0, "", method, {}, {}, {}, place)
    content = document(path)
    names = {name: _name(path, content, name) for name in IDENTITY if name != "seed"}
    if names.pop("cell") != cell_id:
        raise UserError(f"{path} is of cell {content['cell']!r} but study.json expects {cell_id!r}; restore the file")
    variant = cell_entry["label_variant"] if "label_variant" in cell_entry else content.get("variant", "")
    if not isinstance(variant, str) or not variant.isprintable():
        raise UserError(f"{path}: variant is {variant!r}; expected printable text")
    return CellRecord(
        id=cell_id,
        directory=directory,
        **names,
        steps=_count(path, content, "steps"),
        variant=_field(path, content, "variant", str, ""),
        label=schema.label(names["method"], names["backend"], names["model"], names["profile"], variant),
        settings=_field(path, content, "settings", dict, {}),
        versions=_field(path, content, "versions", dict, {}),
        parts=_parts(path, content),
        matrix=place,
        score=_score(path, content),
        logs=_logs(path, content),
        stages=tuple(_stages(path, content)),
    )


def _stages(path: Path, content: Mapping[str, Any]) -> Iterable[StageRecord]:
    """Return the pre-training stages in the record of a cell, the first one first."""
    stages: list[StageRecord] = []
    while "stage" in content:
        if len(stages) == schema.STAGES:
            raise UserError(f"{path} has more than {schema.STAGES} pre-training stages; restore the file")
        content = _field(path, content, "stage", dict)
        names = {name: _name(path, content, name) for name in ("suite", "task", "method")}
        steps, settings = _count(path, content, "steps"), _field(path, content, "settings", dict)
        stages.append(
            StageRecord(
                _name(path, content, "cell"), **names, steps=steps, settings=settings, parts=_parts(path, content)
            )
        )
    return reversed(stages)


def _place(path: Path, cell_entry: Mapping[str, Any]) -> MatrixPlace | None:
    if "matrix" not in cell_entry:
        return None
    content = _field(path, cell_entry, "matrix", dict)
    place = MatrixPlace(*(_name(path, content, name) for name in MatrixPlace._fields))
    if place.kind not in schema.MATRICES:
        raise UserError(f"{path}: matrix of kind {place.kind!r}; expected one of {', '.join(schema.MATRICES)}")
    return place


def _score(path: Path, content: Mapping[str, Any]) -> Score:
    try:
        return schema.score_of(content)
    except UserError as error:
        raise UserError(f"{path}: {error}; restore the file") from None


def _logs(path: Path, content: Mapping[str, Any]) -> Mapping[str, Log]:
    try:
        return logs.read(content.get("logs", {}), ("evaluations", *schema.LOGS))
    except UserError as error:
        raise UserError(f"{path}: {error}; restore the file") from None


def _parts(path: Path, content: Mapping[str, Any]) -> Mapping[str, RecordedPart]:
    try:
        return parts.read(content.get("parts", {}))
    except UserError as error:
        raise UserError(f"{path}: {error}; restore the file") from None


def seeds(root: Path, study_path: Path, cell: CellRecord, cell_entry: Mapping[str, Any]) -> list[int]:
    """Return the seeds of a cell in order: those that study.json lists and those of earlier commands."""
    listed = _field(study_path, cell_entry, "seeds", list)
    if not all(type(seed) is int and seed >= 0 for seed in listed):
        raise UserError(f"{study_path}: seeds of cell {cell.id} are {listed!r}; expected whole numbers of at least 0")
    present = (path.parent.name.removeprefix("seed-") for path in (root / cell.directory).glob("seed-*/run.json"))
    return sorted({*listed, *(int(name) for name in present if name.isdecimal())})


def run_record(root: Path, cell: CellRecord, seed: int, beside: str = "") -> RunRecord:
    """Return the record of a run. `beside`: the attempt's directory inside the run's that holds run.json, or "" for the
    run's own directory (`guidebench.harness.records.attempts`)."""
    directory = f"{cell.directory}/seed-{seed}"
    path = root / directory / beside / "run.json"
    if not path.is_file():
        return RunRecord(cell, seed, directory, "waiting", 0, cell.steps, None, {})
    content = document(path)
    status = _field(path, content, "status", str)
    if status not in schema.STATUSES:
        raise UserError(f"{path}: status is {status!r}; expected one of {', '.join(schema.STATUSES)}")
    content = {"seed": seed, "step": 0, "steps": cell.steps, **content}  # absent if it failed to start
    if _count(path, content, "seed") != seed:
        raise UserError(f"{path}: seed is {content['seed']}, but the directory says {seed}; restore the file")
    error = content.get("error")
    if status == "finished" and (lost := lost_rows(root / directory, path.parent)):
        status, error = "failed", lost
    return RunRecord(
        cell,
        seed,
        directory,
        status,
        _count(path, content, "step"),
        _count(path, content, "steps"),
        None if error is None else str(error),
        _field(path, content, "provenance", dict, {}),
    )


def document(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a study, parsed in the separate process; raise UserError if it is too large
    or of another schema."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST:
        raise UserError(f"{path} has {size:,} bytes; no such file of this program has more than {LARGEST:,}")
    content = reader()(f"{path}: reading it", reader_process.SECONDS, read_json, path)
    if not isinstance(content, dict):
        raise UserError(f"{path} holds {type(content).__name__}; expected a JSON object")
    if content.get("schema") != schema.SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema {content.get('schema')!r}; this version reads {schema.SCHEMA_VERSION}: "
            f"use the version of guidebench that wrote it"
        )
    return content


_ABSENT = object()


def _field(path: Path, content: Mapping[str, Any], name: str, kind: type, default: Any = _ABSENT) -> Any:
    value = content.get(name, default)
    if value is _ABSENT:
        raise UserError(f"{path} lacks {name!r}; restore the file")
    if not isinstance(value, kind):
        raise UserError(f"{path}: {name} is {value!r}; expected {kind.__name__}")
    return value


def _name(path: Path, content: Mapping[str, Any], name: str) -> str:
    value: str = _field(path, content, name, str)
    if not value.isprintable():  # a terminal would obey control characters
        raise UserError(f"{path}: {name} is {value!r}; expected printable text")
    return value


def _count(path: Path, content: Mapping[str, Any], name: str) -> int:
    value = _field(path, content, name, int)
    if isinstance(value, bool) or value < 0:
        raise UserError(f"{path}: {name} is {value!r}; expected a whole number of at least 0")
    return int(value)
