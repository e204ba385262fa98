"""Where objects belong: a table of how many raters would put an object on a receptacle.

A table is a CSV or Parquet file with the columns `room`, `receptacle`, `object` (texts), `positive` and `raters`
(whole numbers), one row for each pair of a receptacle in a room and an object. `convert.py` makes one of Housekeep's
published annotations; `preferences.csv` is a small one of this project's making.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError, unknown

OURS = Path(__file__).with_name("preferences.csv")
SHARE = (6, 10)
"""A receptacle is correct if at least 6 of 10 raters would put the object there (Housekeep, §3)."""
COLUMNS = {"room": str, "receptacle": str, "object": str, "positive": int, "raters": int}
MOST_BYTES, MOST_ROWS = 50_000_000, 1_000_000
LONGEST = 60
"""Characters of a name at most."""
SECONDS = 60.0


class Votes(NamedTuple):
    """Raters who would put an object on a receptacle, and raters asked."""

    positive: int
    raters: int

    @property
    def correct(self) -> bool:
        """Return whether the receptacle is a correct place.

        >>> Votes(6, 10).correct, Votes(5, 10).correct, Votes(1, 1).correct
        (True, False, True)
        """
        return SHARE[1] * self.positive >= SHARE[0] * self.raters


class Preferences(NamedTuple):
    """A table that has been checked."""

    source: str
    """The file's name, for messages."""
    votes: Mapping[tuple[str, str], Mapping[str, Votes]]
    """(room, receptacle) -> object -> votes; every pair has all objects."""
    name: str
    """`ours-…` for this project's own table, else `file-…`, with a hash of the content."""

    @property
    def rooms(self) -> tuple[str, ...]:
        return tuple(sorted({room for room, _ in self.votes}))

    def receptacles(self, room: str) -> tuple[str, ...]:
        """Return the receptacles of a room, sorted; UserError for a room that the table lacks."""
        if room not in self.rooms:
            raise unknown(f"room of the table {self.source}: suite.room=", room, self.rooms)
        return tuple(sorted(receptacle for at, receptacle in self.votes if at == room))

    def correct(self, room: str, thing: str) -> tuple[str, ...]:
        """Return the receptacles of a room where an object belongs, sorted; UserError for an unknown object."""
        names = self.receptacles(room)
        known = self.votes[room, names[0]]
        if thing not in known:
            raise unknown(f"object of the table {self.source}:", thing, known)
        return tuple(name for name in names if self.votes[room, name][thing].correct)


def ours() -> Preferences:
    """Return this project's own table."""
    return read(OURS)


def read(path: Path) -> Preferences:
    """Return a file's table, read in a separate process. UserError for another content, which it names."""
    if not path.is_file():
        raise UserError(
            f"suite.preferences={path} is no file; give a CSV or Parquet file of preferences, which "
            f"`python -m guidebench.suites.housekeep.convert data.npy FILE` makes of Housekeep's"
        )
    told = path.stat()
    return _read(path.resolve(), told.st_mtime_ns, told.st_size)


@functools.lru_cache(maxsize=8)
def _read(path: Path, time: int, size: int) -> Preferences:
    if size > MOST_BYTES:
        raise UserError(f"{path}: {size:,} bytes are more than a table of preferences has ({MOST_BYTES:,})")
    if path == OURS.resolve():
        return _checked(path.name, rows_of(path), "ours")
    rows = reader_process.call(f"{path}: reading its preferences", SECONDS, rows_of, path)
    return _checked(path.name, rows, "file")


def rows_of(path: Path) -> list[tuple[str, str, str, int, int]]:
    """Return the rows of a file, in the order of `COLUMNS`; UserError for other columns, types or sizes."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        outside.check_parquet(path)
        table = pq.read_table(path, use_threads=False)
        named, found = table.column_names, list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    elif path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            named, found = next(lines, []), [tuple(line) for line in lines]
    else:
        raise UserError(f"{path} ends in {path.suffix!r}; a table of preferences ends in .csv or .parquet")
    if list(named) != list(COLUMNS):
        raise UserError(
            f"{path} has the columns {', '.join(map(str, named))[:200]}; a table of preferences has "
            f"{', '.join(COLUMNS)}"
        )
    if not found or len(found) > MOST_ROWS:
        raise UserError(f"{path} has {len(found):,} rows; a table of preferences has 1 to {MOST_ROWS:,}")
    return [_row(path, number, row) for number, row in enumerate(found, 1)]


def _row(path: Path, number: int, row: Sequence[Any]) -> tuple[str, str, str, int, int]:
    if len(row) != len(COLUMNS):
        raise UserError(f"{path}, row {number}: {len(row)} values; expected {len(COLUMNS)}")
    values: list[Any] = []
    for (name, kind), value in zip(COLUMNS.items(), row, strict=True):
        if kind is int and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7:
            value = int(value)
        if kind is int:
            fits = type(value) is int and 0 <= value < 10**6
        else:
            fits = isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()
        if not fits:
            expected = "a whole number from 0 on" if kind is int else f"a name of at most {LONGEST} characters"
            raise UserError(f"{path}, row {number}: {name} is {str(value)[:LONGEST]!r}; expected {expected}")
        values.append(value)
    if not 0 <= values[3] <= values[4] or values[4] < 1:
        raise UserError(
            f"{path}, row {number}: positive is {values[3]} of {values[4]} raters; expected at least one rater and no "
            f"more positive ones than there are"
        )
    return tuple(values)


def _checked(source: str, rows: Iterable[tuple[str, str, str, int, int]], origin: str) -> Preferences:
    votes: dict[tuple[str, str], dict[str, Votes]] = {}
    objects: dict[str, None] = {}
    for room, receptacle, thing, positive, raters in rows:
        own = votes.setdefault((room, receptacle), {})
        if thing in own:
            raise UserError(f"{source} has {thing!r} on {room}|{receptacle} twice; a table has each pair once")
        own[thing] = Votes(positive, raters)
        objects[thing] = None
    for (room, receptacle), own in votes.items():
        if lacking := [thing for thing in objects if thing not in own]:
            raise UserError(
                f"{source} lacks {lacking[0]!r} on {room}|{receptacle}; a table has each object on each receptacle"
            )
    return Preferences(source, votes, f"{origin}-{digest(votes)}")


def digest(votes: Mapping[tuple[str, str], Mapping[str, Votes]]) -> str:
    """Return the hash of a table's content, 32 hexadecimal digits; it depends on no order of rows."""
    rows = sorted([room, place, thing, *found] for (room, place), own in votes.items() for thing, found in own.items())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:32]
