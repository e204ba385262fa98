"""The cost of a source's cells in calls to foundation models, read from the last, cumulative record of each run's
ledger."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records import schema
from guidebench.harness.records.files import open_regular
from guidebench.harness.records.parts import RecordedPart
from guidebench.reports.summary import ledger
from guidebench.reports.summary.ledger import Answered
from guidebench.results import RunRecord, StudyRecord

TAIL = 2**16
"""Bytes at the end of a ledger that are searched for its last record."""


class CellCost(NamedTuple):
    """Totals over the runs of a cell, counted as if no answer had been cached."""

    calls: int
    usd: float


def answered(study: StudyRecord, runs: Iterable[RunRecord]) -> Answered:
    """Return the number of questions of these runs and of their stages, and of failed ones, from the last record of
    each ledger. A ledger that is missing, unreadable or without counts adds nothing."""
    total = Answered(0, 0)
    texts: dict[str, list[Any]] = {}
    parts: dict[str, Mapping[str, RecordedPart]] = {}
    for id, cell_parts, path in ((*place, path) for run in runs for place, path in _ledgers(study, run)):
        if path is not None:
            with contextlib.suppress(UserError):  # `costs` refuses it by name.
                row = _row(path)
                questions, failures = row.get("questions"), row.get("failures")
                if type(questions) is int and type(failures) is int and 0 <= failures <= questions < 2**53:
                    total = total.plus(Answered(questions, failures))
                    texts.setdefault(id, []).append(row.get(schema.ROLES))
                    parts[id] = cell_parts
    for id, mine in texts.items():
        try:
            roles, remarks = ledger.by_role(mine, parts[id])
        except ValueError as error:
            return total._replace(unread=f"the column {schema.ROLES!r} of a ledger: {error}")
        total = total.plus(Answered(0, 0, roles=roles, remarks=remarks))
    return total


def costs(study: StudyRecord) -> dict[str, CellCost]:
    """Return cell id -> its calls and US dollars over all runs, stages included, for the cells that ask a foundation
    model and whose runs all have a ledger. Raise UserError for an invalid record."""
    totals: dict[str, CellCost] = {}
    silent: set[str] = set()
    for run in (run for run in study.runs if run.status != "waiting"):
        for _, path in _ledgers(study, run):
            if path is not None:
                row = _last(path)
                before = totals.get(run.cell.id, CellCost(0, 0.0))
                totals[run.cell.id] = CellCost(before.calls + row.calls, before.usd + row.usd)
            else:
                silent.add(run.cell.id)
    return {id: cost for id, cost in totals.items() if id not in silent}


def _ledgers(
    study: StudyRecord, run: RunRecord
) -> Iterator[tuple[tuple[str, Mapping[str, RecordedPart]], Path | None]]:
    """Yield, for a run's cell and for each of its stages that asks a foundation model, ((cell id, parts), path of the
    ledger); the path is None if there is no file."""
    directories = {cell.id: cell.directory for cell in study.cells}
    homes = [((run.cell.id, run.cell.parts), run.directory)] if ledger.is_billed(run.cell) else []
    for stage in filter(ledger.asks, run.cell.stages):
        home = f"{directories[stage.id]}/seed-{run.seed}" if stage.id in directories else ""
        homes.append(((stage.id, stage.parts), home))
    for whose, home in homes:
        path = study.directory / home / "ledger.jsonl"
        yield whose, path if home and path.is_file() else None


def _row(path: Path) -> Mapping[str, Any]:
    """Return the last complete record of a ledger file; empty if there is none. Raise UserError if it is not JSON."""
    with open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read(TAIL)
    lines = text.splitlines() if text.endswith(b"\n") else text.splitlines()[:-1]  # one may be cut short
    if not lines:
        return {}
    try:
        row: Any = json.loads(lines[-1])
    except (ValueError, RecursionError):
        raise UserError(f"{path}: its last row is not JSON; restore the file") from None
    return row if isinstance(row, Mapping) else {"calls": None}


def _last(path: Path) -> CellCost:
    row = reader_process.call(f"{path}: reading its last row", reader_process.SECONDS, _row, path)
    if not row:
        return CellCost(0, 0.0)
    calls, usd = row.get("calls"), row.get("usd")
    if type(calls) is not int or not 0 <= calls < 2**53:
        raise UserError(f"{path}, last row, column 'calls': {str(calls)[:80]}; expected a whole number of at least 0")
    if not isinstance(usd, (int, float)) or isinstance(usd, bool) or not 0 <= usd < 1e12:
        raise UserError(f"{path}, last row, column 'usd': {str(usd)[:80]}; expected an amount of at least 0")
    return CellCost(calls, float(usd))
