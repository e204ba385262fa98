"""The rows of a finished run as Parquet, the same bytes for the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.logs import UNDECLARED, Log
from guidebench.harness.records.files import write_bytes
from guidebench.harness.records.schema import EVALUATION, SCORE

_ARROW = {str: "string", int: "int64", float: "float64", bool: "bool"}


def to_parquet(source: Path, target: Path, columns: Iterable[str] = EVALUATION) -> None:
    """Compact evaluation rows in JSON lines to one Parquet file with these columns of `EVALUATION` or `SCORE`."""
    kinds = {**EVALUATION, SCORE: float}
    _write(_rows(source), {name: kinds[name] for name in columns}, target)


def log_to_parquet(source: Path, target: Path, log: Log = UNDECLARED) -> None:
    """Compact a log of JSON lines to one Parquet file with the columns of all its rows, in the order in which they
    first appear; a row without a column has null there. A declared column is of its declared kind, any other of the
    kind of its values. Nothing is written for a log without rows."""
    rows = _rows(source)
    found: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(name, set()).update([] if value is None else [type(value)])
    if rows:
        declared = {**log.wanted, **log.optional}
        kinds = {name: declared.get(name) or _kind(source, name, values) for name, values in found.items()}
        _write(rows, kinds, target)


def _kind(source: Path, name: str, kinds: set[type]) -> type:
    """The type that holds all values of a column; float for one without any."""
    if not kinds or kinds == {int, float}:
        return float
    if len(kinds) > 1 or not kinds <= _ARROW.keys():
        named = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UserError(
            f"{source}, column {name!r}: it holds {named}; a column of a log holds numbers, or text, or bools"
        )
    return next(iter(kinds))


def _rows(source: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(source.read_bytes().splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            raise UserError(
                f"{source}, line {number}, is damaged; delete the run's directory to train it anew"
            ) from None
    return rows


def _write(rows: list[dict[str, Any]], kinds: Mapping[str, type], target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.type_for_alias(_ARROW[kind])) for name, kind in kinds.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_bytes(target, sink.getvalue().to_pybytes())
