"""A run's answers of models, `answers.parquet`: the first answers of each kind in each role, whoever gave them.

A run writes it with the execution setting `answers=true`. While it trains, the rows are JSON lines that a checkpoint
counts like those of logs, so that a resume writes the same rows.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from guidebench.harness.records.files import Rows, nothing, read_regular, write_bytes

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "answers.parquet"
LINES = "model_answers"
"""Name, before `.jsonl`, of the rows of a run that is not finished."""
MOST = 2_000
"""Most rows of a kind of answers in a role: those of the first distinct questions."""
MOST_BYTES = 2**24
"""Most bytes of such rows (16 MiB), which long vectors reach before `MOST`."""
QUESTION = "question"
"""Kind of an answer to a whole question whose calls nobody made, such as an oracle's."""


class AnswerRecord(NamedTuple):
    """An answer, and what it was given to, each as text or bytes from which it is restored exactly."""

    role: str
    question: str
    """SHA-256 of the question's content and snapshots, in hexadecimal digits."""
    call: str
    """SHA-256 of the call by which a dialogue asked for the answer; that of the question where it made none."""
    kind: str
    """Kind of call, such as `judge`, with its purpose after a colon, such as `chat:plan`; or `QUESTION`."""
    answer: str
    """JSON of the answer; for an array, its header (`calls/arrays.py`)."""
    data: bytes | None = None
    """Bytes of an array; None for other answers."""

    @property
    def size(self) -> int:
        """Return the bytes of the answer."""
        return len(self.answer) + len(self.data or b"")


class AnswerLog:
    """The rows of one run that is not finished."""

    def __init__(self, directory: Path, offset: int) -> None:
        """`directory`: the run's; `offset`: bytes of its rows that a checkpoint counts, 0 for a new run."""
        path = directory / f"{LINES}.jsonl"
        self._rows = Rows(path, offset)
        self._calls: set[tuple[str, str, str]] = set()
        self._counts = Counter[tuple[str, str]]()
        self._bytes = Counter[tuple[str, str]]()
        for record in _read(path) if offset else ():
            self._count(record)

    def add(self, records: Iterable[AnswerRecord]) -> None:
        """Append the records of new questions, as long as there is room for their kind."""
        for record in records:
            kind = record.role, record.kind
            has_room = self._counts[kind] < MOST and self._bytes[kind] + record.size <= MOST_BYTES
            if has_room and (*kind, record.call) not in self._calls:
                self._count(record)
                data = None if record.data is None else base64.b64encode(record.data).decode()
                self._rows.append(record._asdict() | {"data": data})

    def _count(self, record: AnswerRecord) -> None:
        kind = record.role, record.kind
        self._calls.add((*kind, record.call))
        self._counts[kind] += 1
        self._bytes[kind] += record.size

    def flush(self) -> int:
        """Flush all rows to disk and return their bytes."""
        return self._rows.flush()

    def close(self) -> None:
        self._rows.close()


def schema() -> pa.Schema:
    """Return the columns of `answers.parquet`."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in AnswerRecord._fields if name != "data"]
    return pa.schema([*texts, ("data", pa.binary())])


def write(directory: Path, fence: Callable[[], None] = nothing) -> None:
    """Write the file of a run from its rows. `fence`: as of `write_bytes`."""
    write_records(directory / FILE, _read(directory / f"{LINES}.jsonl"), fence)


def write_records(path: Path, records: Iterable[AnswerRecord], fence: Callable[[], None] = nothing) -> None:
    """Write a file of answers; equal records give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([record._asdict() for record in records], schema=schema())
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes(), fence)


def _read(path: Path) -> list[AnswerRecord]:
    """Return the rows of a run that this program wrote."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in read_regular(path).splitlines()]
    return [
        AnswerRecord(**{**row, "data": None if row["data"] is None else base64.b64decode(row["data"])}) for row in rows
    ]
