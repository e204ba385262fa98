"""Checks of a cassette: every table row must be one that this program would have written.

The file is untrusted data. It is opened read-only and without its journals, and only if its schema equals ours exactly,
so that no view, trigger or generated column in it runs. Then each table row is checked: types, sizes, hashes, and that
each answer fits its question. Call `verify` in a separate process (`guidebench.harness.reader_process`), limited to
`seconds`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import numpy as np

from guidebench.harness import registry
from guidebench.harness.errors import UserError, size
from guidebench.harness.models.backends.images import pixels
from guidebench.harness.models.calls import Call, FailureKind, Usage, image_digest, key_of
from guidebench.harness.models.cassette_file import COLUMNS, STRANGERS, NotKept, faults_of, opened, read
from guidebench.harness.texts import JSON

LONGEST = 2**26
"""Most bytes of one value: 64 MiB, the vectors of a large batch."""
NAME = 1_000
"""Most characters of a run's or a model's name."""
DETAIL = 2**16
SECONDS, SPEED = 60.0, 2**19
"""Time limit of checking a file: a constant in seconds, and bytes per additional second."""
MOST = 2**48
"""Largest value of any count; sums of counts must fit into 64 bits."""
BLANK = np.zeros((1, 1, 3), np.uint8)
StoredCall = Mapping[str, Any]


IMPORTING = "nothing was taken: ask for another copy"
"""What happened, and what to do, where a file to be imported fails a check."""


class UnknownKind(UserError):
    """A request names a kind of call that is not registered in this installation."""


def verify(
    file: Path, mode: str = STRANGERS, advice: str = IMPORTING, passed_over: tuple[type[UserError], ...] = ()
) -> None:
    """Raise UserError naming the first table row that this program would not have written. `mode`: as of
    `cassette_file.opened`; a file that others write meanwhile is read with "ro". `advice`: the end of the message;
    `passed_over`: errors of rows that are not needed, such as UnknownKind where calls are looked up by their keys."""
    if mode == STRANGERS and any(file.with_name(f"{file.name}{end}").exists() for end in ("-wal", "-journal")):
        raise UserError(f"{file} is being written, or was not closed; import what `bench models export` makes of it")
    with closing(opened(file, mode)) as db, faults_of(file):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        integrity = db.execute("PRAGMA integrity_check(1)").fetchone()
        if integrity != ("ok",):
            raise UserError(f"{file} is damaged ({printable(str(integrity))}); {advice}")
        for table in CHECKS:
            try:
                _verify_table(db, table, file, advice, passed_over)
            except sqlite3.DataError as error:
                if getattr(error, "sqlite_errorname", "") != "SQLITE_TOOBIG":
                    raise
                raise UserError(
                    f"{file} holds a value of more than {size(LONGEST)} among its {table}, the most that is read of a "
                    f"recorded call; {advice}"
                ) from None


def _verify_table(
    db: sqlite3.Connection, table: str, file: Path, advice: str, passed_over: tuple[type[UserError], ...]
) -> None:
    columns = COLUMNS.get(table, "shard")
    for number, row in enumerate(db.execute(f"SELECT {columns} FROM {table}"), 1):
        try:
            CHECKS[table](dict(zip(columns.split(", "), row, strict=True)), db)
        except sqlite3.Error:
            raise
        except passed_over:
            continue
        except UnknownKind as unknown:
            raise UserError(f"{file}: row {number} of {table} {unknown}; {advice}") from None
        except Exception as error:  # untrusted content may raise anything
            reason = printable(str(error) or type(error).__name__)
            raise UserError(
                f"{file}: row {number} of {table} is not what this program records ({reason}); {advice}"
            ) from None


def total_seconds(files: Iterable[Path]) -> float:
    """Return the time limit for checking several files, in seconds."""
    return SECONDS + sum(seconds(file) - SECONDS for file in files)


def seconds(file: Path) -> float:
    """Return the time limit for checking a file, in seconds."""
    return SECONDS + (file.stat().st_size / SPEED if file.is_file() else 0)


def printable(text: str) -> str:
    """Return an untrusted text, shortened and without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:200])


def _image(row: StoredCall, _: sqlite3.Connection) -> None:
    if not isinstance(row["png"], bytes):
        raise ValueError(f"expected bytes, got {type(row['png']).__name__}")
    if image_digest(pixels(row["png"])) != row["digest"]:
        raise ValueError("the image has another digest")


def _request(row: StoredCall, _: sqlite3.Connection) -> None:
    if key_of(_text(row["text"], LONGEST)) != row["key"]:
        raise ValueError("the request has another key")
    _parse_call(row["text"])


def _answer(row: StoredCall, db: sqlite3.Connection) -> None:
    call = _checked_call(row, db)
    _text(row["value"], LONGEST)
    try:
        answer = read(db, type(call), row["key"], row["run"])
    except NotKept:
        return  # a run that needs the answer asks the model again
    if fault := call.fault(answer):
        raise ValueError(f"no answer to a call of kind {call.kind!r}: {fault}")


def _array(row: StoredCall, db: sqlite3.Connection) -> None:
    """Check that an array belongs to an answer; `_answer` checks its bytes."""
    query = "SELECT text FROM answers JOIN requests USING (key) WHERE key = ? AND run = ?"
    request = db.execute(query, (row["key"], row["run"])).fetchone()
    if request is None or _parse_call(request[0]).array is None:
        raise ValueError("there is no answer that is an array with its key and run")


def _failure(row: StoredCall, db: sqlite3.Connection) -> None:
    _checked_call(row, db)
    if row["kind"] not in get_args(FailureKind):
        raise ValueError(f"no kind of failure: {row['kind']!r}")


def _merged(row: StoredCall, _: sqlite3.Connection) -> None:
    _text(row["shard"], NAME)


CHECKS: Mapping[str, Callable[[StoredCall, sqlite3.Connection], None]] = {
    "images": _image,
    "requests": _request,
    "answers": _answer,
    "arrays": _array,
    "failures": _failure,
    "merged": _merged,
}
"""Table -> check that raises ValueError for a row that this program would not write."""


def _checked_call(row: StoredCall, db: sqlite3.Connection) -> Call:
    """Check the columns that answers and failures share (asker, usage, detail) and return their request."""
    for name in ("run", "model", "role", "scope"):
        _text(row[name], NAME)
    for name in ("ordinal", "step", *Usage._fields):
        fits = isinstance(row[name], (int, float) if name in ("seconds", "usd") else int)
        if not fits or not 0 <= row[name] <= MOST:
            raise ValueError(f"{name} is {row[name]!r}")
    detail = JSON.decode(_text(row["detail"], DETAIL))
    if not isinstance(detail, dict) or not all(isinstance(value, (str, float)) for value in detail.values()):
        raise ValueError("detail is no mapping of names to numbers and texts")
    request = db.execute("SELECT text FROM requests WHERE key = ?", (row["key"],)).fetchone()
    if request is None:
        raise ValueError("there is no request with its key")
    return _parse_call(request[0])


def _parse_call(text: str) -> Call:
    """Return the call of a request with blank images, because images need not be recorded."""
    match json.loads(text):
        case {"kind": str(kind), "model": dict()} as request:
            return kind_of(kind).read(request, lambda digest: BLANK)
    raise ValueError("no request for an answer of a model")


def kind_of(name: str) -> type[Call]:
    """Return the kind of call that a request names; raise UnknownKind if no installed package defines it."""
    try:
        kind: type[Call] = registry.get("call", name)
    except UserError as error:
        raise UnknownKind(
            f"is a call of kind {printable(name)[:40]!r}, which cannot be read here; install the package that brings "
            f"it ({printable(str(error))})"
        ) from None
    return kind


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"expected a text of at most {longest} characters, got {type(value).__name__}")
    return value
