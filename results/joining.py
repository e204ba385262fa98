"""Join several studies into one: studies of a cell that agree are one row, others a row and its replications."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.results import replications
from guidebench.results.replications import Record
from guidebench.results.rows import load
from guidebench.results.store import CellRecord, RunRecord, StudyRecord, study

if TYPE_CHECKING:
    import pandas as pd

MEASURED = "measured"
"""Name that stands for all studies measured by this project (results/measured)."""
_ACCOUNT = ["step", "episode", "return", "success", "length"]
"""Columns of an evaluation row that describe the episode."""


class Joined(NamedTuple):
    """Joined studies; run directories are relative to the working directory."""

    study: StudyRecord
    evaluations: pd.DataFrame
    origins: Mapping[str, tuple[str, ...]]
    """Cell id -> names of the studies that contain the cell"""
    members: Mapping[str, tuple[str, ...]]
    """Name of a study -> ids of its cells in `study`"""
    replications: Mapping[str, str]
    """Id of a replication in `study` -> id of the cell that it repeats, under which both are on record"""
    machines: Mapping[str, Mapping[int, int]]
    """Cell id -> seed -> number of different machines on which equal rows were made, where it is more than one"""

    def recorded(self, id: str) -> str:
        """Return the id under which a cell of `study` is on record."""
        return self.replications.get(id, id)


def directories(name: str) -> dict[str, Path]:
    """Return display name -> directory of a study, or of all studies for `measured`, without reading them."""
    if name != MEASURED:
        if not Path(name).exists() and difflib.get_close_matches(name, [MEASURED]):
            raise UserError(f"no study at {name}: the directory does not exist; did you mean {MEASURED!r}?")
        return {name: Path(name)}
    root = Path(__file__).parent / MEASURED
    found = {f"{MEASURED}/{path.parent.name}": path.parent for path in sorted(root.glob("*/study.json"))}
    if not found:
        raise UserError(f"this installation holds no measured studies (looked in {root}); name a study's directory")
    return found


def opened(name: str) -> dict[str, StudyRecord]:
    """Return display name -> study in a directory, or all measured studies for `measured`."""
    return {shown: study(path) for shown, path in directories(name).items()}


def select(source: StudyRecord, wanted: Callable[[CellRecord], bool]) -> StudyRecord:
    """Return the study restricted to the cells that satisfy `wanted`, and their runs."""
    cells = tuple(cell for cell in source.cells if wanted(cell))
    ids = {cell.id for cell in cells}
    return replace(source, cells=cells, runs=tuple(run for run in source.runs if run.cell.id in ids))


class _Run(NamedTuple):
    """A run with its evaluation rows, and the machines on which equal rows were made."""

    run: RunRecord
    rows: pd.DataFrame
    machines: frozenset[str]

    @property
    def record(self) -> Record:
        columns = {name: self.rows[name].to_numpy() for name in _ACCOUNT}
        return Record(columns, self.run.provenance, self.run.status == "finished")


class _Row(NamedTuple):
    """A cell with what one study, or several that agree, have recorded of it."""

    cell: CellRecord
    studies: list[str]
    runs: dict[int, _Run]
    """Seed -> its longest record"""


def join(studies: Mapping[str, StudyRecord]) -> Joined:
    """Join studies, given by name, with cells in order of first appearance.

    Two studies of a cell are one row if every seed that both have has equal episodes as far as both go. The row has the
    runs of both, and a run of both counts once, with its longest record. Otherwise the later study of the cell is a
    replication: a cell of its own, with a new id and with "replication" in its label.

    Raises UserError if two cells of one id contradict each other, or if two records of a run differ although they were
    made under equal conditions (`replications.is_equal`).
    """
    import pandas as pd

    rows: dict[str, _Row] = {}
    by_record: dict[str, list[str]] = {}
    members: dict[str, tuple[str, ...]] = {}
    repeated: dict[str, str] = {}
    for name, source in studies.items():
        recorded = _runs(source)
        ids: dict[str, str] = {}
        for cell in source.cells:
            known = by_record.setdefault(cell.id, [])
            if known:
                _check_same(rows[known[0]], cell, name)
            id = _agreeing([rows[id] for id in known], recorded[cell.id])
            if not id:
                id = f"{cell.id}-replication-{len(known)}" if known else cell.id
                label = f"{cell.label}, replication" if known else cell.label
                rows[id] = _Row(replace(cell, id=id, label=label), [], {})
                repeated |= {id: cell.id} if known else {}
                known.append(id)
            elif not rows[id].cell.profile:  # not started there, so only its directory is known
                rows[id] = rows[id]._replace(cell=replace(cell, id=id))
            rows[id].studies.append(name)
            ids[cell.id] = id
            for seed, run in recorded[cell.id].items():
                rows[id].runs[seed] = _further(rows[id].runs[seed], run) if seed in rows[id].runs else run
        for id in ids.values():
            place = rows[id].cell.matrix
            if place and rows[id].studies == [name]:
                place = place._replace(reference=ids.get(place.reference, place.reference))
                rows[id] = rows[id]._replace(cell=replace(rows[id].cell, matrix=place))
        members[name] = tuple(ids.values())
    cells = tuple(row.cell for row in rows.values())
    runs = tuple(replace(own.run, cell=row.cell) for row in rows.values() for own in row.runs.values())
    joined = StudyRecord(" + ".join(studies), Path(), (), cells, runs)
    frames = [
        own.rows.assign(cell=id, label=row.cell.label) if id in repeated else own.rows
        for id, row in rows.items()
        for own in row.runs.values()
        if len(own.rows)
    ]
    evaluations = pd.concat(frames, ignore_index=True) if frames else load(replace(joined, cells=(), runs=()))
    origins = {id: tuple(row.studies) for id, row in rows.items()}
    machines = {
        id: {seed: len(own.machines) for seed, own in row.runs.items() if len(own.machines) > 1}
        for id, row in rows.items()
    }
    return Joined(joined, evaluations, origins, members, repeated, machines)


def _runs(source: StudyRecord) -> dict[str, dict[int, _Run]]:
    """Return cell id -> seed -> run of a study."""
    rows = load(source)
    by_run = dict(list(rows.groupby(["cell", "seed"], sort=False)))
    found: dict[str, dict[int, _Run]] = {cell.id: {} for cell in source.cells}
    for run in source.runs:
        own = by_run.get((run.cell.id, run.seed), rows.iloc[:0])
        machines = frozenset([replications.machine(run.provenance)] if len(own) else [])
        placed = replace(run, directory=str(source.directory / run.directory))
        found[run.cell.id][run.seed] = _Run(placed, own, machines)
    return found


def _check_same(row: _Row, cell: CellRecord, study: str) -> None:
    """Raise UserError if a study's cell contradicts the first record of its id."""
    if field := replications.altered_field(row.cell, cell):
        first, second = getattr(row.cell, field), getattr(cell, field)
        raise UserError(
            f"cell {cell.id} has {field} {first!r} in {row.studies[0]} and {second!r} in {study}: one of the two "
            f"was altered; restore it or leave it out"
        )


def _agreeing(rows: Sequence[_Row], runs: Mapping[int, _Run]) -> str:
    """Return the id of the first row with which runs of the same cell agree; "" if there is none. Raise UserError for a
    run with other rows under equal conditions."""
    known = [{seed: run.record for seed, run in row.runs.items()} for row in rows]
    found = replications.decide(known, {seed: run.record for seed, run in runs.items()})
    if found.contradiction is not None:
        row, seed, index, column = found.contradiction
        cell, one, other = rows[row].cell, rows[row].runs[seed], runs[seed]
        here, there = one.rows.iloc[index], other.rows.iloc[index]
        raise UserError(
            f"{cell.suite}/{cell.task}, {cell.label}, seed {seed}: {one.run.directory} and "
            f"{other.run.directory} are of the same cell ({other.run.cell.id}), were made by the same code on "
            f"machines of the same kind, and differ: at step {here['step']:,}, episode {here['episode']}, "
            f"{column} is {here[column]} and {there[column]}. Leave one of the two out; which of them is right "
            f"cannot be decided from the records"
        )
    return "" if found.row is None else rows[found.row].cell.id


def _further(first: _Run, second: _Run) -> _Run:
    """Return the record of one run that counts, with the machines of both."""
    found = second if replications.is_further(first.record, second.record) else first
    return found._replace(machines=first.machines | second.machines)
