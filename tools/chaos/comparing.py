"""What two studies of the same cells must have in common, byte by byte: evaluations, policies, judgements and all other
logs, the ledger and the recorded answers; and what each must have recorded as spent.

Durations are left out, and what was billed: a request that a kill cut off is made again, and one worker asks once what
two workers ask at the same time. Instead, what a study says it has spent is compared with what its server received.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from guidebench.harness.models import spending, study_models
from tests.logs import log_rows

TIMED = ("timings",)
"""Logs of durations."""
ACCOUNTS = ("ledger", "spending")
BILLED = "billed_"
STATUS = ("status", "seed", "step", "steps", "error", "score")
"""Fields of run.json that state how far a run came."""
TABLES = (
    "SELECT key, text FROM requests", "SELECT key, run, value FROM answers", "SELECT key, run, kind FROM failures",
    "SELECT digest FROM images", "SELECT key, run, data FROM arrays",
)  # fmt: skip
CUT_OFF = 12
"""Most calls of one command that a fault can cut off: two in flight for each of two workers, in three roles."""


def differences(reference: Path, disturbed: Path) -> list[str]:
    """Return a line for each difference between two finished studies: missing files, other bytes, other records."""
    names, others = (entries(study) for study in (reference, disturbed))
    differences = [f"{name} is missing" for name in sorted(names - others)]
    differences += [f"{name} should not be there" for name in sorted(others - names)]
    for name in sorted(names & others):
        before, after = reference / name, disturbed / name
        if before.is_dir() or before.stem in TIMED or before.read_bytes() == after.read_bytes():
            continue
        if before.name == "run.json":
            differences += [f"{name}: {text}" for text in _status(before, after)]
        elif before.stem in ACCOUNTS:
            differences += [f"{name}: {text}" for text in _accounts(before, after)]
        else:
            differences.append(f"{name} differs{_first_row(before, after)}")
    return differences + _record_differences(reference, disturbed)


def entries(study: Path) -> set[str]:
    """Return the relative paths of all files in a study's run directories, except those of leases."""
    runs = study.glob("*/*/*/seed-*")
    paths = (path for run in runs for path in (run, *run.rglob("*")))
    return {str(path.relative_to(study)) for path in paths if ".lease" not in path.parts}


def misspent(study: Path, received: int | None, cut_off: int | None) -> list[str]:
    """Return complaints about the number of model calls that a study has recorded as spent. `received`: requests that
    its server got, None without a server; `cut_off`: most calls that faults can have cut off, None for no limit.

    Each call is recorded before it is sent, so the server has received no more. Each answer took a call, and a run asks
    again only what was cut off. The last rows of the ledgers hold all calls for the runs' answers."""
    accounts = spending.spent(study_models.folder(study))
    recorded = sum(usage.calls for usage in accounts.values())
    training = {account: usage.calls for account, usage in accounts.items() if account.purpose == "runs"}
    _, answers, failures, *_ = _tables(study)
    complaints = []
    if received is not None and recorded < received:
        complaints.append(f"the server received {received} requests, and {recorded} are recorded as spent")
    if received is not None and cut_off is not None and recorded > received + cut_off:
        complaints.append(f"{recorded} requests are recorded as spent, and the server received {received}")
    if recorded < len({key for key, *_ in answers}):
        complaints.append(f"{len(answers)} answers are recorded, and only {recorded} calls as spent")
    if not failures and cut_off is not None and sum(training.values()) > len(answers) + cut_off:
        complaints.append(f"{sum(training.values())} calls were made for {len(answers)} answers")
    ledgers = [log_rows(run, "ledger") for run in study.glob("*/*/*/seed-*")]
    billed = sum(rows[-1]["billed_calls"] for rows in ledgers if rows)
    if billed != sum(training.values()):
        complaints.append(
            f"the ledgers hold {billed} billed calls, and the accounts of the runs {sum(training.values())}"
        )
    return complaints


def _status(reference: Path, disturbed: Path) -> Iterator[str]:
    contents = [json.loads(path.read_text()) for path in (reference, disturbed)]
    for field in STATUS:
        first, second = (record.get(field) for record in contents)
        if first != second:
            yield f"{field} is {second!r} instead of {first!r}"


def _accounts(reference: Path, disturbed: Path) -> Iterator[str]:
    """Yield the differences between two logs of spending, ignoring durations and billed amounts. A run that was stopped
    has an extra row at that step, whose counts must lie between those of the rows around it."""
    rows, others = ({_moment(row): row for row in log_rows(path.parent, path.stem)} for path in (reference, disturbed))
    for moment, row in rows.items():
        if moment not in others:
            yield f"the row of step {moment[0]} {moment[1]} is missing"
            continue
        for column in sorted({*row, *others[moment]} - {"seconds"}):
            if not column.startswith(BILLED) and row.get(column) != others[moment].get(column):
                yield f"step {moment[0]}: {column} is {others[moment].get(column)!r} instead of {row.get(column)!r}"
    for step, role in others.keys() - rows.keys():
        same_role = sorted(moment for moment in rows if moment[1] == role)
        before = [rows[moment] for moment in same_role if moment[0] < step][-1:]
        after = [rows[moment] for moment in same_role if moment[0] > step][:1]
        for column, value in others[step, role].items():
            low, high = ([row[column] for row in side if column in row] for side in (before, after))
            if (
                isinstance(value, int)
                and not column.startswith(BILLED)
                and (not high or not max([0, *low]) <= value <= high[0])
            ):
                yield f"step {step}, at which the run was stopped: {column} is {value}, after {low} and before {high}"


def _moment(row: Mapping[str, Any]) -> tuple[int, str]:
    """Return the step and the role that identify a row of a spending log; the role is "" in the ledger."""
    return int(row["step"]), str(row.get("role", ""))


def _record_differences(reference: Path, disturbed: Path) -> list[str]:
    """Return the differences between the recorded questions, answers, failures and frames, compared by key."""
    sides = [_tables(study) for study in (reference, disturbed)]
    differences = []
    for table, without_faults, with_faults in zip(TABLES, *sides, strict=True):
        if without_faults != with_faults:
            name = table.rpartition(" ")[2]
            differences.append(
                f"recorded {name} differ: {len(without_faults - with_faults)} only without faults, "
                f"{len(with_faults - without_faults)} only with them"
            )
    return differences


def _tables(study: Path) -> list[set[tuple[Any, ...]]]:
    """Return for each table of TABLES the set of its rows in all cassettes of a study."""
    tables: list[set[tuple[Any, ...]]] = [set() for _ in TABLES]
    for cassette in sorted(study_models.folder(study).glob("*.sqlite")):
        with closing(sqlite3.connect(cassette)) as db:
            for table, query in zip(tables, TABLES, strict=True):
                table.update(db.execute(query))
    return tables


def _first_row(reference: Path, disturbed: Path) -> str:
    """Describe the first row at which two logs differ; "" for files that are no logs."""
    if reference.suffix not in (".parquet", ".jsonl"):
        return ""
    rows, others = (log_rows(path.parent, path.stem) for path in (reference, disturbed))
    for number, (row, another) in enumerate(zip(rows, others, strict=False)):
        if row != another:
            return f" from row {number} of {len(rows)} on: {_changed_columns(row, another)}"
    return f": {len(others)} rows instead of {len(rows)}"


def _changed_columns(row: Mapping[str, Any], another: Mapping[str, Any]) -> str:
    columns = [column for column in {**row, **another} if row.get(column) != another.get(column)]
    return ", ".join(f"{column} is {another.get(column)!r} instead of {row.get(column)!r}" for column in columns[:3])
