"""Reads the logs of a run: Parquet if the run has finished, JSON lines otherwise."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def log_rows(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of the log `name` in a run's directory, without columns that are None; [] if there is no such
    log."""
    compact, lines = run / f"{name}.parquet", run / f"{name}.jsonl"
    if compact.exists():
        rows = pq.read_table(compact).to_pylist()
        return [{column: value for column, value in row.items() if value is not None} for row in rows]
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
