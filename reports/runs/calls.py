"""A sample of one run's model calls from a study's cassettes, each validated before it is shown.

A cassette may be a stranger's. Only a file with exactly our layout is opened, read-only and without its journals;
request, answer and images of every shown call are checked, within limits of time and size.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.models import cassette, study_models
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.cassette_checks import CHECKS, kind_of
from guidebench.harness.models.cassette_file import COLUMNS, STRANGERS, NotKept, faults_of, opened, read
from guidebench.harness.records.clips import ShownMessage, ShownPiece
from guidebench.harness.records.files import is_within
from guidebench.harness.texts import brief
from guidebench.reports.runs.reading import pixels

MOST = 50
"""Calls to show of each kind: the first failures, the first answers and the last answers."""
FILES = 20
"""Most cassettes to read."""
PATIENCE = 10.0
"""Seconds for one cassette."""
VALUE = 2**22
"""Most bytes of a value: 4 MiB."""
FRAMES = 6
"""Most images of a message, evenly chosen."""
PARTS = 40
"""Most messages of a call, and pieces of a message."""
PIXELS, PICTURE, PICTURES = 2**20, 2**18, 2**22
"""Most pixels and bytes of an image, and bytes of all images on a page."""


WRONG = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions that a value of a wrong type or size raises."""


class ShownCall(NamedTuple):
    """A call to a model with its request and its answer or failure, as texts and images."""

    ordinal: int
    step: int
    kind: str
    """Kind of the call: judge, chat, embed, or a plug-in's."""
    model: str
    messages: tuple[ShownMessage, ...]
    answer: str
    failure: str
    """Kind of the failure, or ""."""
    took: Usage


class Calls(NamedTuple):
    """A sample of a run's calls, failures first, then by their number."""

    sample: tuple[ShownCall, ...] = ()
    answered: int = 0
    failed: int = 0
    notes: tuple[str, ...] = ()
    """What could not be shown, and why."""

    @property
    def left_out(self) -> int:
        return self.answered + self.failed - len(self.sample)


def recorded(study: Path, run: str) -> Calls:
    """Return the calls of a run, CELL/SEED, from the cassettes in a study's directory."""
    directory = study_models.folder(study)
    shards = sorted(directory.glob(cassette.SHARDS))
    notes = [f"models/: {len(shards) - FILES} cassettes are left out"] if len(shards) > FILES else []
    calls, answered, failed = list[ShownCall](), 0, 0
    album = _Album()
    for file in [directory / cassette.MERGED, *shards[:FILES]]:
        if not is_within(study, file):
            continue
        if any(file.with_name(f"{file.name}{end}").exists() for end in ("-wal", "-journal")):
            notes.append(f"{file.name}: a process is writing it; its calls are shown once it has ended")
            continue
        try:
            with closing(opened(file, STRANGERS)) as db, faults_of(file):
                _bound(db)
                answered += _count(db, "answers", run)
                failed += _count(db, "failures", run)
                for table, key, ordinal in _chosen(db, run):
                    try:
                        calls.append(_call(db, table, run, key, ordinal, album))
                    except (*WRONG, UserError, sqlite3.Error) as error:
                        notes.append(f"{file.name}: a row of {table} is not what this program records ({error})")
        except UserError as error:
            slow = "(interrupted)" in str(error)
            notes.append(f"{file.name}: it could not be read within {PATIENCE:g} s" if slow else str(error))
    ordered = sorted(calls, key=lambda call: (not call.failure, call.ordinal))
    return Calls(tuple(ordered), answered, failed, tuple(dict.fromkeys(brief(note, 400) for note in notes)))


def _bound(db: sqlite3.Connection) -> None:
    """Limit the values that a database returns to VALUE bytes, and its queries to PATIENCE seconds."""
    until = time.monotonic() + PATIENCE
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE)
    db.set_progress_handler(lambda: time.monotonic() > until, 10_000)


def _count(db: sqlite3.Connection, table: str, run: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table} WHERE run = ?", (run,)).fetchone()[0])


def _chosen(db: sqlite3.Connection, run: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield table, key and ordinal of the records to show."""
    for table, orders in (("failures", ("",)), ("answers", ("", " DESC"))):
        rows: dict[Any, None] = {}
        for order in orders:
            query = f"SELECT key, ordinal FROM {table} WHERE run = ? ORDER BY ordinal{order}, key LIMIT {MOST}"
            rows |= dict.fromkeys(db.execute(query, (run,)))
        yield from ((table, *row) for row in rows)


def _call(db: sqlite3.Connection, table: str, run: str, key: Any, ordinal: Any, album: _Album) -> ShownCall:
    """Read a call from a cassette with checks; raise one of `WRONG` for a record that this program would not have
    written."""
    columns = COLUMNS[table].split(", ")
    query = f"SELECT {COLUMNS[table]} FROM {table} WHERE key = ? AND run = ? AND ordinal = ?"
    row = dict(zip(columns, db.execute(query, (key, run, ordinal)).fetchone(), strict=True))
    request = db.execute("SELECT key, text FROM requests WHERE key = ?", (key,)).fetchone()
    CHECKS["requests"](dict(zip(("key", "text"), request, strict=True)), db)
    question = json.loads(request[1])
    kind = kind_of(question["kind"])
    try:
        answer = "" if table == "failures" else brief(kind.words(read(db, kind, key, run)))
    except NotKept as array:
        answer = str(array)
    took: dict[str, Any] = {name: (float if name in ("seconds", "usd") else int)(row[name]) for name in Usage._fields}
    return ShownCall(
        int(row["ordinal"]),
        int(row["step"]),
        kind.kind,
        brief(row["model"], 200),
        tuple(
            ShownMessage(brief(role, 20), album.parts(db, content)) for role, content in kind.sections(question)[:PARTS]
        ),
        answer,
        brief(row["kind"], 50) if table == "failures" else "",
        Usage(**took),
    )


class _Album:
    """The images of a page, within its limit of bytes."""

    def __init__(self) -> None:
        self._room = PICTURES

    def parts(self, db: sqlite3.Connection, content: Sequence[Any]) -> tuple[ShownPiece, ...]:
        """Return the texts and images of a message in order; of many images, a selection."""
        places = [number for number, part in enumerate(content) if not isinstance(part, str)]
        indices = np.unique(np.linspace(0, len(places) - 1, min(FRAMES, len(places))).round().astype(int))
        chosen = {places[number] for number in indices.tolist()}
        pieces: list[ShownPiece] = []
        missing = 0
        for number, part in enumerate(content):
            if len(pieces) == PARTS:
                return (*pieces, ShownPiece(f"({len(content) - number:,} more)"))
            if isinstance(part, str):
                pieces.append(ShownPiece(brief(part)))
            elif number in chosen:
                image = self._image(db, str(part["image"]))
                missing += not image
                pieces += [ShownPiece(content=image)] if image else []
        return (
            *pieces,
            *([ShownPiece(f"({missing} of {len(chosen)} images: not kept, or no room)")] if missing else []),
        )

    def _image(self, db: sqlite3.Connection, digest: str) -> bytes:
        """Return an image's PNG from a cassette; empty if it is not there or there is no room for it."""
        row = db.execute("SELECT png FROM images WHERE digest = ?", (digest,)).fetchone()
        png = row[0] if row else b""
        if not isinstance(png, bytes):
            raise ValueError("an image is no bytes")
        if not png or len(png) > min(self._room, PICTURE) or pixels(png) > PIXELS:
            return b""
        CHECKS["images"]({"digest": digest, "png": png}, db)
        self._room -= len(png)
        return png
