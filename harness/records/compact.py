"""Finished evaluation rows as Parquet, the same bytes for the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UserError
from harness.records.files import write_bytes
from harness.records.schema import EVALUATION, SCORE

_ARROW = {str: "string", int: "int64", float: "float64", bool: "bool"}


def to_parquet(source: Path, target: Path, columns: Iterable[str] = EVALUATION) -> None:
    """Compact evaluation rows in JSON lines to one Parquet file with these columns of `EVALUATION` or `SCORE`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for number, line in enumerate(source.read_bytes().splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            raise UserError(
                f"{source}, line {number}, is damaged; delete the run's directory to train it anew"
            ) from None
    kinds = {**EVALUATION, SCORE: float}
    schema = pa.schema([(name, pa.type_for_alias(_ARROW[kinds[name]])) for name in columns])
    table = pa.Table.from_pylist(rows, schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_bytes(target, sink.getvalue().to_pybytes())
