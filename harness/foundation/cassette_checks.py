"""What a row of a stranger's cassette has to be: exactly what this program would have written.

The file is data. It is opened read-only and without its journals, and only if its layout is ours to the letter, so that
no view, trigger or generated column of it is run; then each row is looked at: types, sizes, hashes, and that an answer
is one to its question.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import numpy as np

from harness.errors import UserError
from harness.foundation import keys
from harness.foundation.calls import FailureKind, Usage
from harness.foundation.cassette_file import COLUMNS, STRANGERS, decoded, faults_of, opened
from harness.foundation.images import pixels

LONGEST = 2**26
"""Bytes of one value: 64 MiB, the vectors of a large batch."""
NAME = 1_000
"""Characters of a run's or a model's name."""
DETAIL = 2**16
MOST = 2**48
"""Of anything that is counted; their sums have to fit into 64 bits."""
Row = Mapping[str, Any]


def verify(file: Path) -> None:
    """UserError naming the first row that this program would not have written."""
    if any(file.with_name(f"{file.name}{end}").exists() for end in ("-wal", "-journal")):
        raise UserError(f"{file} is being written, or was not closed; import what `bench models export` makes of it")
    with closing(opened(file, STRANGERS)) as db, faults_of(file):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        (state,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok":
            raise UserError(f"{file} is damaged ({printable(state)}); ask for another copy")
        for table, check in CHECKS.items():
            names = COLUMNS[table].split(", ")
            for number, row in enumerate(db.execute(f"SELECT {COLUMNS[table]} FROM {table}"), 1):
                try:
                    check(dict(zip(names, row, strict=True)), db)
                except (ValueError, RecursionError) as error:
                    raise UserError(
                        f"{file}: row {number} of {table} is not what this program records ({printable(str(error))}); "
                        f"nothing was taken"
                    ) from None


def printable(text: str) -> str:
    """A stranger's text, short and without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:200])


def _image(row: Row, _: sqlite3.Connection) -> None:
    if not isinstance(row["png"], bytes):
        raise ValueError(f"expected bytes, got {type(row['png']).__name__}")
    if keys.image_digest(pixels(row["png"])) != row["digest"]:
        raise ValueError("the image has another digest")


def _request(row: Row, _: sqlite3.Connection) -> None:
    if keys.key_of(_text(row["text"], LONGEST)) != row["key"]:
        raise ValueError("the request has another key")
    _parsed(row["text"])


def _answer(row: Row, db: sqlite3.Connection) -> None:
    asked = _asked(row, db)
    value = decoded(_text(row["value"], LONGEST))
    match asked:
        case {"kind": "judge"}:
            fits = isinstance(value, float)
        case {"kind": "chat", "schema": None}:
            fits = isinstance(value, str)
        case {"kind": "chat", "schema": schema}:
            fits = isinstance(value, dict)
            _fits_schema(value, schema)
        case {"items": items}:
            fits = isinstance(value, np.ndarray) and len(value) == len(items) and bool(np.isfinite(value).all())
    if not fits:
        raise ValueError(f"no answer to a call of kind {asked['kind']}")


def _failure(row: Row, db: sqlite3.Connection) -> None:
    _asked(row, db)
    if row["kind"] not in get_args(FailureKind):
        raise ValueError(f"no kind of failure: {row['kind']!r}")


CHECKS: Mapping[str, Callable[[Row, sqlite3.Connection], None]] = {
    "images": _image,
    "requests": _request,
    "answers": _answer,
    "failures": _failure,
}
"""Table -> what raises ValueError for a row that is not ours."""


def _asked(row: Row, db: sqlite3.Connection) -> dict[str, Any]:
    """The request of an answer or a failure, once what both have in common is checked: who was told, what it took."""
    for name in ("run", "model"):
        _text(row[name], NAME)
    for name in ("ordinal", "step", *Usage._fields):
        fits = isinstance(row[name], (int, float) if name in ("seconds", "usd") else int)
        if not fits or not 0 <= row[name] <= MOST:
            raise ValueError(f"{name} is {row[name]!r}")
    detail = json.loads(_text(row["detail"], DETAIL))
    if not isinstance(detail, dict) or not all(isinstance(value, (str, float)) for value in detail.values()):
        raise ValueError("detail is no mapping of names to numbers and texts")
    found = db.execute("SELECT text FROM requests WHERE key = ?", (row["key"],)).fetchone()
    if found is None:
        raise ValueError("there is no request with its key")
    return _parsed(found[0])


def _parsed(text: str) -> dict[str, Any]:
    """A request, as far as its answers depend on it."""
    match json.loads(text):
        case (
            {"kind": "judge", "model": dict(), "prompt": str(), "clip": list()}
            | {"kind": "chat", "model": dict(), "messages": list(), "schema": dict() | None}
            | {"kind": "embed", "model": dict(), "items": list()}
        ) as asked:
            return dict(asked)
    raise ValueError("no request for a judgement, a chat or an embedding")


def _fits_schema(value: Any, schema: dict[str, Any]) -> None:
    """ValueError if an object does not fit a stranger's schema. Nothing is fetched for it, and patterns are left out:
    one can be written that takes for ever."""
    import jsonschema
    from referencing import Registry

    def ignored(*_: Any) -> Iterator[Any]:
        yield from ()

    left_out = ["pattern", "patternProperties"]
    if "patternProperties" in json.dumps(schema):
        left_out += ["additionalProperties", "unevaluatedProperties"]  # which would try them
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, dict.fromkeys(left_out, ignored))
    try:
        error = next(kind(schema, registry=Registry()).iter_errors(value), None)
    except Exception as problem:  # a schema may be any nonsense
        raise ValueError(f"its schema cannot be used: {type(problem).__name__}") from None
    if error is not None:
        raise ValueError(f"the object does not fit its schema: {error.message}")


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"expected a text of at most {longest} characters, got {type(value).__name__}")
    return value
