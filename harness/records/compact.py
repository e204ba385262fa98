"""Converts the logs of a finished run to Parquet; equal table rows give identical bytes. `fence` raises an error if the
run's lease is lost (`write_bytes`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.logs import UNDECLARED, Log
from guidebench.harness.records.files import nothing, read_regular, write_bytes
from guidebench.harness.records.schema import EVALUATION, SCORE

_ARROW = {str: "string", int: "int64", float: "float64", bool: "bool"}


def to_parquet(
    source: Path, target: Path, columns: Iterable[str] = EVALUATION, fence: Callable[[], None] = nothing
) -> None:
    """Convert episode records in JSON lines to one Parquet file with these columns of `EVALUATION` and `SCORE`."""
    kinds = {**EVALUATION, SCORE: float}
    _write(_rows(source), {name: kinds[name] for name in columns}, target, fence)


def log_to_parquet(source: Path, target: Path, log: Log = UNDECLARED, fence: Callable[[], None] = nothing) -> None:
    """Convert a log of JSON lines to one Parquet file with all columns of its table rows, in order of appearance;
    missing values are null. Declared columns have their declared type, others the type of their values. Writes no file
    for an empty log."""
    rows = _rows(source)
    found: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(name, set()).update([] if value is None else [type(value)])
    if rows:
        declared = {**log.required, **log.optional}
        kinds = {name: declared.get(name) or _kind(source, name, values) for name, values in found.items()}
        _write(rows, kinds, target, fence)


def _kind(source: Path, name: str, kinds: set[type]) -> type:
    """Return the type of a column from the types of its values; float if it has no values."""
    if not kinds or kinds == {int, float}:
        return float
    if len(kinds) > 1 or not kinds <= _ARROW.keys():
        named = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UserError(f"{source}, column {name!r} holds {named}; expected only numbers, only text or only bools")
    return next(iter(kinds))


def _rows(source: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(read_regular(source).splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            raise UserError(
                f"{source}, line {number}, is damaged; delete the run's directory to train it anew"
            ) from None
    return rows


def _write(rows: list[dict[str, Any]], kinds: Mapping[str, type], target: Path, fence: Callable[[], None]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.type_for_alias(_ARROW[kind])) for name, kind in kinds.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_bytes(target, sink.getvalue().to_pybytes(), fence)
