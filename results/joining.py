"""Join several studies into one: studies of a cell that agree are one row, others a row and its replications."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from guidebench.harness.claims import CLAIMS
from guidebench.harness.errors import UserError
from guidebench.results import replications
from guidebench.results.replications import Record
from guidebench.results.rows import load
from guidebench.results.store import CellRecord, RunRecord, StudyRecord, study

if TYPE_CHECKING:
    import pandas as pd

MEASURED = "measured"
"""Name that stands for all studies measured by this project (results/measured)."""
_HOME = Path(__file__).parent / MEASURED
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
    baselines: tuple[str, ...] = ()
    """Ids of the cells with which primary claims of the joined studies compare"""

    def recorded(self, id: str) -> str:
        """Return the id under which a cell of `study` is on record."""
        return self.replications.get(id, id)


def directories(name: str) -> dict[str, Path]:
    """Return display name -> directory of a study, or of all studies for `measured`, without reading them. Of the
    measured studies those with claims come first: what they show was not chosen after looking."""
    if name != MEASURED:
        if not Path(name).exists() and difflib.get_close_matches(name, [MEASURED]):
            raise UserError(f"no study at {name}: the directory does not exist; did you mean {MEASURED!r}?")
        return {name: Path(name)}
    paths = sorted(path.parent for path in _HOME.glob("*/study.json"))
    if not paths:
        raise UserError(f"this installation holds no measured studies (looked in {_HOME}); name a study's directory")
    paths.sort(key=lambda path: not (path / CLAIMS).is_file())
    return {f"{MEASURED}/{path.name}": path for path in paths}


def opened(name: str) -> dict[str, StudyRecord]:
    """Return display name -> study in a directory, or all measured studies for `measured`."""
    return {display_name: study(path) for display_name, path in directories(name).items()}


def select(source: StudyRecord, is_selected: Callable[[CellRecord], bool]) -> StudyRecord:
    """Return the study restricted to the cells that `is_selected` accepts,  and their runs."""
    cells = tuple(cell for cell in source.cells if is_selected(cell))
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
    """A cell and its runs, as recorded by one study or by several that agree."""

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
    baselines: dict[str, None] = {}
    for name, source in studies.items():
        recorded = _runs(source)
        ids: dict[str, str] = {}
        for cell in source.cells:
            record_ids = by_record.setdefault(cell.id, [])
            if record_ids:
                _check_same(rows[record_ids[0]], cell, name)
            id = _agreeing([rows[id] for id in record_ids], recorded[cell.id])
            if not id:
                id = f"{cell.id}-replication-{len(record_ids)}" if record_ids else cell.id
                label = f"{cell.label}, replication" if record_ids else cell.label
                rows[id] = _Row(replace(cell, id=id, label=label), [], {})
                repeated |= {id: cell.id} if record_ids else {}
                record_ids.append(id)
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
        claimed = source.claims.baselines if source.claims else ()
        baselines |= dict.fromkeys(ids[cell] for cell in claimed if cell in ids)  # a task may have been chosen
    cells = tuple(row.cell for row in rows.values())
    runs = tuple(replace(member.run, cell=row.cell) for row in rows.values() for member in row.runs.values())
    joined = StudyRecord(" + ".join(studies), Path(), (), cells, runs)
    frames = [
        member.rows.assign(cell=id, label=row.cell.label) if id in repeated else member.rows
        for id, row in rows.items()
        for member in row.runs.values()
        if len(member.rows)
    ]
    evaluations = pd.concat(frames, ignore_index=True) if frames else load(replace(joined, cells=(), runs=()))
    origins = {id: tuple(row.studies) for id, row in rows.items()}
    machines = {
        id: {seed: len(member.machines) for seed, member in row.runs.items() if len(member.machines) > 1}
        for id, row in rows.items()
    }
    return Joined(joined, evaluations, origins, members, repeated, machines, tuple(baselines))


def _runs(source: StudyRecord) -> dict[str, dict[int, _Run]]:
    """Return cell id -> seed -> run of a study."""
    rows = load(source)
    by_run = dict(list(rows.groupby(["cell", "seed"], sort=False)))
    by_cell: dict[str, dict[int, _Run]] = {cell.id: {} for cell in source.cells}
    for run in source.runs:
        run_rows = by_run.get((run.cell.id, run.seed), rows.iloc[:0])
        machines = frozenset([replications.machine(run.provenance)] if len(run_rows) else [])
        placed = replace(run, directory=str(source.directory / run.directory))
        by_cell[run.cell.id][run.seed] = _Run(placed, run_rows, machines)
    return by_cell


def _check_same(row: _Row, cell: CellRecord, study: str) -> None:
    """Raise UserError if a study's cell contradicts the first record of its id."""
    if field := replications.altered_field(row.cell, cell):
        first, second = getattr(row.cell, field), getattr(cell, field)
        raise UserError(
            f"cell {cell.id} has {field} {first!r} in {row.studies[0]} and {second!r} in {study}: one of the two "
            f"was altered; restore it or leave it out"
        )


def _agreeing(rows: Sequence[_Row], runs: Mapping[int, _Run]) -> str:
    """Return the id of the first row that agrees with the `runs` of the same cell; "" if none does. Raise UserError if
    a run differs from a row's run that was made under equal conditions."""
    recorded_rows = [{seed: run.record for seed, run in row.runs.items()} for row in rows]
    decision = replications.decide(recorded_rows, {seed: run.record for seed, run in runs.items()})
    if decision.contradiction is not None:
        row, seed, index, column = decision.contradiction
        cell, first, second = rows[row].cell, rows[row].runs[seed], runs[seed]
        first_episode, second_episode = first.rows.iloc[index], second.rows.iloc[index]
        raise UserError(
            f"{cell.suite}/{cell.task}, {cell.label}, seed {seed}: {first.run.directory} and "
            f"{second.run.directory} are of the same cell ({second.run.cell.id}), were made by the same code on "
            f"machines of the same kind, and differ: at step {first_episode['step']:,}, episode "
            f"{first_episode['episode']}, {column} is {first_episode[column]} and {second_episode[column]}. Leave one "
            f"of the two out; which of them is right cannot be decided from the records"
        )
    return "" if decision.row is None else rows[decision.row].cell.id


def _further(first: _Run, second: _Run) -> _Run:
    """Return the record of one run that counts, with the machines of both."""
    longer = second if replications.is_further(first.record, second.record) else first
    return longer._replace(machines=first.machines | second.machines)
