"""What a source's cells took of foundation models: the last row of each run's ledger, which counts from its start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import UserError
from reports import ledger
from results import Study

TAIL = 2**16
"""Bytes of a ledger's end in which its last row lies."""


class Cost(NamedTuple):
    """Over the runs of a cell, as if no answer had been on record."""

    calls: int
    usd: float


def costs(study: Study) -> dict[str, Cost]:
    """Cell id -> what it took, of the cells that ask a foundation model and all of whose runs tell; UserError for a row
    that is none."""
    found: dict[str, Cost] = {}
    silent: set[str] = set()
    for run in study.runs:
        path = study.directory / run.directory / "ledger.jsonl"
        if not ledger.is_billed(run.cell) or run.status == "waiting":
            continue
        if path.is_file():
            row = _last(path)
            before = found.get(run.cell.id, Cost(0, 0.0))
            found[run.cell.id] = Cost(before.calls + row.calls, before.usd + row.usd)
        else:
            silent.add(run.cell.id)
    return {id: cost for id, cost in found.items() if id not in silent}


def _last(path: Path) -> Cost:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read(TAIL)
    lines = text.splitlines() if text.endswith(b"\n") else text.splitlines()[:-1]  # one that a crash cut short
    if not lines:
        return Cost(0, 0.0)
    try:
        row: Any = json.loads(lines[-1])
    except (ValueError, RecursionError):
        raise UserError(f"{path}: its last row is not JSON; restore the file") from None
    calls, usd = (row.get("calls"), row.get("usd")) if isinstance(row, Mapping) else (None, None)
    if type(calls) is not int or not 0 <= calls < 2**53:
        raise UserError(f"{path}, last row, column 'calls': {str(calls)[:80]}; expected a whole number of at least 0")
    if not isinstance(usd, (int, float)) or isinstance(usd, bool) or not 0 <= usd < 1e12:
        raise UserError(f"{path}, last row, column 'usd': {str(usd)[:80]}; expected an amount of at least 0")
    return Cost(calls, float(usd))
