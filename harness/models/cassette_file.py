"""The file format of a cassette: its schema, safe opening, encoding of answers, and SQLite's errors as UserError."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Call, Usage, arrays
from guidebench.harness.texts import JSON

PATIENCE = 60.0
"""Seconds to wait for another process that is writing."""
BESIDE = ("-journal", "-wal")
"""Name endings of the files that SQLite opens beside a database. If one were a FIFO, opening it would block."""
STRANGERS = "ro&immutable=1"
"""Mode for an untrusted file: it is never written, and a journal beside it is ignored."""


class InUse(UserError):
    """Another process has locked a file."""


class NotKept(Exception):
    """The numbers of an array answer were not kept."""

    def __init__(self, kind: type[Call], shape: tuple[int, ...]) -> None:
        assert kind.array is not None
        super().__init__(f"{kind.array.dtype} {[*shape]}, not kept")
        self.shape = shape


USAGE_COLUMNS = ", ".join(Usage._fields)
OUTCOME_COLUMNS = f"role, scope, ordinal, step, model, detail, {USAGE_COLUMNS}"
COLUMNS = {
    "images": "digest, png",
    "requests": "key, text",
    "answers": f"key, run, value, {OUTCOME_COLUMNS}",
    "arrays": "key, run, data",
    "failures": f"key, run, kind, {OUTCOME_COLUMNS}",
    "spent": f"run, model, {USAGE_COLUMNS}",
}
"""Table -> its columns. `answers` and `failures` hold the outcomes that runs received, `spent` the usage of each actual
attempt. `arrays` holds the bytes of array answers; a study may drop them, and the answer then keeps only type and
shape."""
_KEYS = {
    "images": "digest", "requests": "key", "answers": "key, run", "arrays": "key, run",
    "failures": "key, run, role, scope, ordinal",
}  # fmt: skip
_TYPES = {"png": "BLOB", "data": "BLOB", "seconds": "REAL", "usd": "REAL"} | dict.fromkeys(
    ("ordinal", "step", "calls", "tokens_in", "tokens_out", "images"), "INTEGER"
)


def _definition(table: str) -> str:
    columns = [f"{column} {_TYPES.get(column, 'TEXT')} NOT NULL" for column in COLUMNS[table].split(", ")]
    if table in _KEYS:
        columns.append(f"PRIMARY KEY ({_KEYS[table]})")
    small = table in ("answers", "failures")  # small rows, stored in the index of their key
    return f"CREATE TABLE {table} ({', '.join(columns)}){' WITHOUT ROWID' if small else ''}"


LAYOUT = (*map(_definition, COLUMNS), "CREATE TABLE merged (shard TEXT PRIMARY KEY)")
"""SQL that creates the tables; `merged` names the shards already merged into this file."""


def create(path: Path) -> None:
    """Create an empty cassette atomically; do nothing if the file exists."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with faults_of(path):
        with closing(_connect(beside, "rwc")) as db:
            _lay_out(db)
        os.replace(beside, path)


def opened(path: Path, mode: str = "ro", timeout: float = PATIENCE) -> sqlite3.Connection:
    """Open a cassette whose schema equals ours exactly, so that reading it runs no trigger or view; raise UserError
    otherwise.

    `mode`: ro, rw or STRANGERS.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such cassette")
    for beside in (path.with_name(f"{path.name}{end}") for end in BESIDE):
        if beside.exists() and not beside.is_file():
            raise UserError(f"{beside} is no regular file; delete it")
    with faults_of(path):
        if mode == "ro" and path.with_name(f"{path.name}-journal").exists():
            with closing(_connect(path, "rw", timeout)) as db:
                _layout(db)  # rolls back a killed process's transaction, which a read-only connection may not
        db = _connect(path, mode, timeout)
        try:
            if _layout(db) != _our_layout():
                raise UserError(f"{path} is no cassette, or one of another version of this program")
        except BaseException:
            db.close()
            raise
    return db


def uri(path: Path, mode: str) -> str:
    """Return the SQLite URI of a file."""
    return f"{path.absolute().as_uri()}?mode={mode}"


def insert(db: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows, skipping those whose key exists."""
    marks = ", ".join("?" * (COLUMNS[table].count(",") + 1))
    db.executemany(f"INSERT OR IGNORE INTO {table} ({COLUMNS[table]}) VALUES ({marks})", rows)


WITHIN = "run IN (SELECT value FROM json_each(?))"
"""Condition that a row's run is in a JSON list."""


def copy(db: sqlite3.Connection, tables: Iterable[str], origin: str, finished: Iterable[str] = ()) -> None:
    """Insert the missing rows of an attached cassette, without the arrays of the runs `finished`."""
    for table in tables:
        query = f"INSERT OR IGNORE INTO main.{table} ({COLUMNS[table]}) SELECT {COLUMNS[table]} FROM {origin}.{table}"
        if table == "arrays":
            db.execute(f"{query} WHERE NOT {WITHIN}", (dumps([*finished]),))
        else:
            db.execute(query)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run a block in one transaction; roll back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def faults_of(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about a file into a UserError that names it and says what to do. (SQLite's message about a
    damaged schema may not be UTF-8.)"""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL" or name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
            text = (
                f"{path} cannot be read or written ({error}); is the disk full? What was answered before is kept: make "
                f"room and run the same command again"
            )
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise InUse(
                f"{path} is in use by another process ({error}); wait for it and run the same command again"
            ) from None
        else:
            text = f"{path} is no cassette, or a damaged one ({error}); restore it, or delete it to ask its calls again"
        raise UserError(text) from None


def dumps(value: Any) -> str:
    """Return compact JSON; raise ValueError for a number that is not finite."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def encoded(kind: type[Call], value: Any) -> tuple[str, bytes | None]:
    """Return an answer as JSON text and None, or for an array its JSON header and its bytes."""
    return (dumps(kind.encode(value)), None) if kind.array is None else arrays.encode(value, kind.array)


def decoded(kind: type[Call], text: str, data: bytes | None) -> Any:
    """Decode what `encoded` returned into the answer; raise NotKept for an array without bytes and ValueError for any
    other text."""
    try:
        if kind.array is None:
            return kind.decode(JSON.decode(text))
        if data is None:
            raise NotKept(kind, arrays.shape_of(text, kind.array))
        return arrays.decode(text, data, kind.array)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{text[:80]!r} is no recorded answer to a call of kind {kind.kind!r}: {error}") from None


def read(db: sqlite3.Connection, kind: type[Call], key: str, run: str) -> Any:
    """Return the recorded answer of a run to a call; raise NotKept and ValueError as `decoded` does."""
    (text,) = db.execute("SELECT value FROM answers WHERE key = ? AND run = ?", (key, run)).fetchone()
    data = db.execute("SELECT data FROM arrays WHERE key = ? AND run = ?", (key, run)).fetchone()
    return decoded(kind, text, None if data is None else data[0])


def _connect(path: Path, mode: str, timeout: float = PATIENCE) -> sqlite3.Connection:
    db = sqlite3.connect(uri(path, mode), uri=True, isolation_level=None, timeout=timeout)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    return db


def _lay_out(db: sqlite3.Connection) -> None:
    with transaction(db):
        for statement in LAYOUT:
            db.execute(statement)


def _layout(db: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@functools.cache
def _our_layout() -> frozenset[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        _lay_out(db)
        return frozenset(_layout(db))
