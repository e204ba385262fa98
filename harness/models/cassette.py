"""Recorded answers of models in SQLite, looked up by a call's key.

An answer belongs to the run that received it and may be reused by every other run. A run finds its own answer first, so
it gets the same one again however the answers of several workers are merged. A failure counts only for the same
question of the same run. Each process writes a shard of its own, and commits an answer to disk before returning it.
Shards are merged after their processes have ended. If several machines share a study's disk, `segments.py` describes
how a process writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Answer, Request, Ticket, Usage
from guidebench.harness.models.cassette_file import (
    COLUMNS,
    PATIENCE,
    USAGE_COLUMNS,
    WITHIN,
    InUse,
    copy,
    create,
    decoded,
    dumps,
    encoded,
    faults_of,
    insert,
    opened,
    transaction,
    uri,
)
from guidebench.harness.records import leases
from guidebench.harness.records.leases import Lease

MERGED = "cassette.sqlite"
SHARDS = "shard-*.sqlite"
MERGING = 900.0
"""Seconds to wait for a process that is merging a cassette."""
WAL_PAGES = 4_096
"""Pages of 4 KiB after which SQLite checkpoints a shard's write-ahead log, which waits for the disk."""
FAILURE = (
    f"SELECT kind, detail, {USAGE_COLUMNS} FROM failures "
    "WHERE key = ? AND run = ? AND role = ? AND scope = ? AND ordinal = ?"
)
ANSWER = (
    f"SELECT run, model, value, detail, {USAGE_COLUMNS} FROM answers WHERE key = ? ORDER BY run = ? DESC, run LIMIT 1"
)
HAS_ARRAY = "EXISTS (SELECT 1 FROM arrays WHERE arrays.key = answers.key AND arrays.run = answers.run)"
"""Condition that the numbers of an array answer are stored."""
ARRAY = ANSWER.replace("key = ?", f"key = ? AND {HAS_ARRAY}")
ARRAYS = '{"array":"%","shape":[%]}'
"""Pattern of the JSON header of an array answer."""
DATA = "SELECT data FROM arrays WHERE key = ? AND run = ?"


class CassetteEntry(NamedTuple):
    """Outcome of one call of a run, to be recorded."""

    request: Request
    ticket: Ticket
    model: str
    outcome: Answer
    images: Mapping[str, bytes]
    """PNGs by digest."""
    spent: Usage
    """Usage that this call has just incurred and that is not recorded yet."""


_Stored = tuple[str, bytes | None]
"""A value as stored: its text, and the bytes if it is an array; ("", None) for a failure."""


class _RecordedOutcome(NamedTuple):
    """An outcome as a cassette holds it, and the run that received it."""

    outcome: Answer
    stored: _Stored
    run: str
    model: str


class Cassette:
    """Reads recorded answers from several files, and adds answers to the shard of one process."""

    def __init__(self, sources: Sequence[Path], shard: Path | None, keep_images: bool = True) -> None:
        """`sources`: cassettes to read; `shard`: file to write, created at the first record.

        Raises UserError for a source that is damaged or not a cassette.
        """
        self._shard, self._keep_images = shard, keep_images
        self._sources = {path: opened(path) for path in sources}
        self._shard_db: sqlite3.Connection | None = None
        self._accounts: dict[tuple[str, str], int] = {}
        """Account and model -> their row of `spent` in the shard, which holds their sum."""

    def find(self, request: Request, ticket: Ticket) -> Answer | None:
        """Return the recorded outcome of a question, preferably this run's, else any run's; None if there is none."""
        recorded = self._find(request, ticket)
        return None if recorded is None else recorded.outcome

    def adopt(self, request: Request, ticket: Ticket) -> Answer | None:
        """Return the outcome that `find` returns; if it belongs to another run, record it as this run's too."""
        recorded = self._find(request, ticket)
        if recorded is None:
            return None
        if recorded.run != ticket.run:
            with self._writing() as db:
                insert(db, "requests", [(request.key, request.text)])
                _insert_outcome(db, request.key, ticket, recorded.model, recorded.outcome, recorded.stored)
        return recorded.outcome

    def lacks(self, digests: Iterable[str]) -> set[str]:
        """Return the digests whose images are not recorded yet; none if images are not kept."""
        image_digests = set(digests) if self._keep_images else set()
        return image_digests if self._shard_db is None else missing_images(self._shard_db, image_digests)

    def record(self, *entries: CassetteEntry) -> None:
        """Record outcomes in one transaction. Raise UserError if the disk is full."""
        with self._writing() as db:
            for request, ticket, model, outcome, images, spent in entries:
                stored = ("", None) if outcome.failure else encoded(type(request.call), outcome.value)
                insert(db, "images", images.items())
                insert(db, "requests", [(request.key, request.text)])
                _insert_outcome(db, request.key, ticket, model, outcome, stored)
                self._add(db, ticket.account, model, spent)

    def dropped(self, request: Request) -> bool:
        """Return whether a call was answered by an array that was dropped from the cassettes since."""
        query = f"SELECT EXISTS (SELECT 1 FROM answers WHERE key = ? AND NOT {HAS_ARRAY})"
        array = request.call.array is not None
        return array and any(db.execute(query, (request.key,)).fetchone()[0] for _, db in self._files())

    def spend(self, account: str, model: str, usage: Usage) -> None:
        """Record usage that was actually incurred, whatever the outcome (`Ticket.account`)."""
        with self._writing() as db:
            self._add(db, account, model, usage)

    def _add(self, db: sqlite3.Connection, account: str, model: str, usage: Usage) -> None:
        """Add usage to the sum of an account, within a transaction."""
        if not any(usage):
            return
        more = ", ".join(f"{name} = {name} + ?" for name in usage._fields)
        query = f"UPDATE spent SET {more} WHERE rowid = ? AND run = ? AND model = ?"
        number = self._accounts.get((account, model), -1)
        if not db.execute(query, (*usage, number, account, model)).rowcount:  # new, or its transaction was undone
            marks = ", ".join("?" * (2 + len(usage)))
            cursor = db.execute(f"INSERT INTO spent ({COLUMNS['spent']}) VALUES ({marks})", (account, model, *usage))
            self._accounts[account, model] = int(cursor.lastrowid or -1)

    def publish(self, followers: Iterable[Path] = ()) -> None:
        """Copy the recorded answers to storage that survives the loss of this machine; here they are there already.
        `followers`: files that exist if other processes have taken over the runs; Fenced is raised if one does."""

    def bill(self) -> None:
        """Record the usage but no answers, because another process holds the runs by now."""

    def close(self) -> None:
        for _, db in self._files():
            db.close()
        self._sources, self._shard_db, self._accounts = {}, None, {}

    def _find(self, request: Request, ticket: Ticket) -> _RecordedOutcome | None:
        key = request.key
        for path, db in self._files():
            with _reading(path):
                row = db.execute(FAILURE, (key, ticket.run, ticket.role, ticket.scope, ticket.ordinal)).fetchone()
                if row is not None:
                    kind, detail, *took = row
                    outcome = Answer(None, kind, Usage(*took), detail=json.loads(detail))
                    return _RecordedOutcome(outcome, ("", None), ticket.run, "")
        recorded, kind = None, type(request.call)
        array = kind.array is not None
        for path, db in self._files():
            with _reading(path):
                row = db.execute(ARRAY if array else ANSWER, (key, ticket.run)).fetchone()
                if row is not None and (recorded is None or row[0] == ticket.run):
                    run, model, text, detail, *took = row
                    data = db.execute(DATA, (key, run)).fetchone()[0] if array else None
                    answer = decoded(kind, text, data)
                    if array and (wrong := request.call.fault(answer)):
                        raise ValueError(wrong)
                    outcome = Answer(answer, "", Usage(*took), detail=json.loads(detail))
                    recorded = _RecordedOutcome(outcome, (text, data), run, model)
                    if run == ticket.run:
                        return recorded
        return recorded

    def _files(self) -> Iterator[tuple[Path, sqlite3.Connection]]:
        yield from self._sources.items()
        if self._shard_db is not None and self._shard is not None:
            yield self._shard, self._shard_db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on the shard."""
        assert self._shard is not None, "this cassette is only read"
        with faults_of(self._shard):
            if self._shard_db is None:
                self._shard_db = _begin_shard(self._shard)
            with transaction(self._shard_db):
                yield self._shard_db


def _begin_shard(shard: Path) -> sqlite3.Connection:
    """Create a shard and open it, so that no other process takes it for abandoned before its first write."""
    lock = Lease(shard.parent, "cassette")
    lock.acquire(PATIENCE)
    try:
        create(shard)
        db = opened(shard, "rw")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        with transaction(db):
            pass  # the first transaction makes SQLite hold the file
        return db
    finally:
        lock.release()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        with faults_of(path):
            yield
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged ({error}); restore it, or delete it to ask its calls again") from None


def _insert_outcome(
    db: sqlite3.Connection, key: str, ticket: Ticket, model: str, outcome: Answer, stored: _Stored
) -> None:
    rest = (ticket.role, ticket.scope, ticket.ordinal, ticket.step, model, dumps(dict(outcome.detail)), *outcome.usage)
    if outcome.failure:
        insert(db, "failures", [(key, ticket.run, outcome.failure, *rest)])
    else:
        text, data = stored
        insert(db, "answers", [(key, ticket.run, text, *rest)])
        if data is not None:
            insert(db, "arrays", [(key, ticket.run, data)])


def missing_images(db: sqlite3.Connection, digests: set[str]) -> set[str]:
    """Return the digests of which a cassette holds no image."""
    marks = ", ".join("?" * len(digests))
    return digests - {
        digest for (digest,) in db.execute(f"SELECT digest FROM images WHERE digest IN ({marks})", [*digests])
    }


def check(path: Path) -> None:
    """Raise UserError if a file is not a cassette."""
    opened(path).close()


def files(directory: Path) -> list[Path]:
    """Return the cassettes of a directory: the merged one, and the shards that are not merged yet."""
    merged = directory / MERGED
    if not merged.exists():
        return sorted(directory.glob(SHARDS))
    with closing(opened(merged)) as db, faults_of(merged):
        done = {name for (name,) in db.execute("SELECT shard FROM merged")}
    return [merged, *sorted(path for path in directory.glob(SHARDS) if path.name not in done)]


def identities(paths: Iterable[Path], role: str | None) -> Iterator[Mapping[str, Any]]:
    """Yield the settings that identify each model in recorded requests: of the models with answers in a role, or of all
    models if `role` is None."""
    within = " WHERE key IN (SELECT key FROM answers WHERE role = ?)"
    query = f"SELECT DISTINCT json_extract(text, '$.model') FROM requests{within if role is not None else ''}"
    for path in paths:
        with closing(opened(path)) as db, faults_of(path):
            for (text,) in db.execute(query, () if role is None else (role,)):
                if isinstance(text, str) and isinstance(identity := _parsed(path, text), dict):
                    yield identity


def _parsed(path: Path, text: str) -> Any:
    with _reading(path):
        return json.loads(text)


def lost_arrays(paths: Iterable[Path], runs: Iterable[str]) -> dict[str, int]:
    """Return model -> number of array answers to the runs (`CELL/SEED`) whose arrays were dropped from all files;
    models without such answers are omitted."""
    model_of_key: dict[str, str] = {}
    with ExitStack() as stack:
        files = {path: stack.enter_context(closing(opened(path))) for path in paths}
        query = f"SELECT key, model FROM answers WHERE {WITHIN} AND value LIKE '{ARRAYS}' AND NOT {HAS_ARRAY}"
        for path, db in files.items():
            with faults_of(path):
                for key, model in db.execute(query, (dumps([*runs]),)):
                    array_query = "SELECT 1 FROM arrays WHERE key = ? LIMIT 1"
                    rows = (other.execute(array_query, (key,)).fetchone() for other in files.values())
                    if key not in model_of_key and not any(rows):
                        model_of_key[key] = model
    return dict(Counter(model_of_key.values()))


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Hold the lease that allows changing the merged cassette of a directory. A process of another machine waits for
    its release once before it reads the cassette, after it has taken the lease of its runs."""
    lock = Lease(directory, "cassette")
    lock.acquire(MERGING, tell=leases.warn)
    try:
        yield
    finally:
        lock.release()


def merge(directory: Path, finished: Collection[str] = (), alone: Callable[[], bool] = lambda: True) -> None:
    """Merge every shard whose process has ended into the directory's cassette and remove it; shards in use stay. Drop
    the arrays that answered the runs `finished`. Do nothing unless `alone()` returns that no other machine uses the
    directory; it is called while none can begin to.

    If killed, the next call completes the merge. Raises UserError for damaged shards, after merging all others.
    """
    damaged = []
    with writing(directory):
        if not alone():
            return
        create(directory / MERGED)
        with closing(opened(directory / MERGED, "rw")) as db:
            for shard in sorted(directory.glob(SHARDS)):
                try:
                    absorb(db, shard, finished)
                except UserError as error:
                    damaged.append(str(error))
            if finished:
                with faults_of(directory / MERGED):
                    dropped = db.execute(f"DELETE FROM arrays WHERE {WITHIN}", (dumps([*finished]),)).rowcount
                    if dropped:
                        with suppress(sqlite3.OperationalError):  # the disk is full; later rows reuse the free pages
                            db.execute("VACUUM")
        for copied in directory.glob(f".{SHARDS}.part"):  # by a process that was killed
            copied.unlink(missing_ok=True)
    if damaged:
        raise UserError("\n".join(damaged))


def absorb(db: sqlite3.Connection, shard: Path, finished: Collection[str] = ()) -> None:
    """Merge a shard into an open cassette and remove it, unless a process is writing it."""
    if not is_abandoned(shard):
        return
    with faults_of(shard):
        db.execute("ATTACH ? AS shard", (uri(shard, "ro"),))
        try:
            with transaction(db):
                if not db.execute("SELECT 1 FROM main.merged WHERE shard = ?", (shard.name,)).fetchone():
                    copy(db, COLUMNS, "shard", finished)
                    db.execute("INSERT INTO main.merged VALUES (?)", (shard.name,))
        finally:
            db.execute("DETACH shard")
    shard.unlink()


def is_abandoned(shard: Path) -> bool:
    """Return whether no process has a shard open; if so, its write-ahead log is merged into it."""
    try:
        with closing(opened(shard, "rw", timeout=0.0)) as db, faults_of(shard):
            db.execute("PRAGMA journal_mode = DELETE")  # granted only to the one process that has the file open
    except InUse:
        return False
    return True
