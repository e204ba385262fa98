"""Recorded answers of models in SQLite, looked up by a call's key.

An answer belongs to the run that received it and may be reused by every other run. A run finds its own answer first, so
it gets the same one again however the answers of several workers are merged. A failure counts only for the same
question of the same run. Each process writes a shard of its own, and commits an answer to disk before returning it.
Shards are merged after their processes have ended. Where a study's disk is shared by several machines, a process writes
as `segments.py` tells.
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
from guidebench.harness.models.calls import Asker, CallResult, Usage
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
from guidebench.harness.models.keys import Request
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
    asker: Asker
    model: str
    outcome: CallResult
    images: Mapping[str, bytes]
    """PNGs by digest."""
    spent: Usage
    """Usage that this call has just incurred and that is not recorded yet."""


_Stored = tuple[str, bytes | None]
"""A value as stored: its text, and the bytes if it is an array; ("", None) for a failure."""


class _Found(NamedTuple):
    outcome: CallResult
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
        self._own: sqlite3.Connection | None = None
        self._accounts: dict[tuple[str, str], int] = {}
        """Account and model -> their row of `spent` in the shard, which holds their sum."""

    def find(self, request: Request, asker: Asker) -> CallResult | None:
        """Return the recorded outcome of a question, preferably this run's, else any run's; None if there is none."""
        found = self._find(request, asker)
        return None if found is None else found.outcome

    def adopt(self, request: Request, asker: Asker) -> CallResult | None:
        """Return what `find` returns, and record an answer of another run as this run's too."""
        found = self._find(request, asker)
        if found is None:
            return None
        if found.run != asker.run:
            with self._writing() as db:
                insert(db, "requests", [(request.key, request.text)])
                _tell(db, request.key, asker, found.model, found.outcome, found.stored)
        return found.outcome

    def lacks(self, digests: Iterable[str]) -> set[str]:
        """Return the digests whose images are not recorded yet; none if images are not kept."""
        wanted = set(digests) if self._keep_images else set()
        return wanted if self._own is None else missing_images(self._own, wanted)

    def record(self, *entries: CassetteEntry) -> None:
        """Record outcomes in one transaction. Raise UserError if the disk is full."""
        with self._writing() as db:
            for request, asker, model, told, images, spent in entries:
                stored = ("", None) if told.failure else encoded(type(request.call), told.value)
                insert(db, "images", images.items())
                insert(db, "requests", [(request.key, request.text)])
                _tell(db, request.key, asker, model, told, stored)
                self._add(db, asker.account, model, spent)

    def dropped(self, request: Request) -> bool:
        """Return whether a missing answer is recorded as an array whose numbers were dropped."""
        query = f"SELECT EXISTS (SELECT 1 FROM answers WHERE key = ? AND NOT {HAS_ARRAY})"
        array = request.call.array is not None
        return array and any(db.execute(query, (request.key,)).fetchone()[0] for _, db in self._files())

    def spend(self, account: str, model: str, usage: Usage) -> None:
        """Record usage that was actually incurred, whatever the outcome (`Asker.account`)."""
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
        """Put what is recorded where the loss of this machine cannot reach it. `followers`: files that exist if other
        processes have taken over the runs; Fenced is raised then."""

    def bill(self) -> None:
        """Record what was spent, and no more: another process holds the runs by now."""

    def close(self) -> None:
        for _, db in self._files():
            db.close()
        self._sources, self._own, self._accounts = {}, None, {}

    def _find(self, request: Request, asker: Asker) -> _Found | None:
        key = request.key
        for path, db in self._files():
            with _reading(path):
                row = db.execute(FAILURE, (key, asker.run, asker.role, asker.scope, asker.ordinal)).fetchone()
                if row is not None:
                    kind, detail, *took = row
                    told = CallResult(None, kind, Usage(*took), detail=json.loads(detail))
                    return _Found(told, ("", None), asker.run, "")
        found, kind = None, type(request.call)
        array = kind.array is not None
        for path, db in self._files():
            with _reading(path):
                row = db.execute(ARRAY if array else ANSWER, (key, asker.run)).fetchone()
                if row is not None and (found is None or row[0] == asker.run):
                    run, model, text, detail, *took = row
                    data = db.execute(DATA, (key, run)).fetchone()[0] if array else None
                    answer = decoded(kind, text, data)
                    if array and (wrong := request.call.fault(answer)):
                        raise ValueError(wrong)
                    told = CallResult(answer, "", Usage(*took), detail=json.loads(detail))
                    found = _Found(told, (text, data), run, model)
                    if run == asker.run:
                        return found
        return found

    def _files(self) -> Iterator[tuple[Path, sqlite3.Connection]]:
        yield from self._sources.items()
        if self._own is not None and self._shard is not None:
            yield self._shard, self._own

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on the shard."""
        assert self._shard is not None, "this cassette is only read"
        with faults_of(self._shard):
            if self._own is None:
                self._own = _begun(self._shard)
            with transaction(self._own):
                yield self._own


def _begun(shard: Path) -> sqlite3.Connection:
    """Create a shard and hold it, so that no other process takes it for abandoned before its first write."""
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


def _tell(db: sqlite3.Connection, key: str, asker: Asker, model: str, told: CallResult, stored: _Stored) -> None:
    rest = (asker.role, asker.scope, asker.ordinal, asker.step, model, dumps(dict(told.detail)), *told.usage)
    if told.failure:
        insert(db, "failures", [(key, asker.run, told.failure, *rest)])
    else:
        text, data = stored
        insert(db, "answers", [(key, asker.run, text, *rest)])
        if data is not None:
            insert(db, "arrays", [(key, asker.run, data)])


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
    """Yield the identity of each model whose answers in a role are on record, or of each model, as requests hold it."""
    within = " WHERE key IN (SELECT key FROM answers WHERE role = ?)"
    query = f"SELECT DISTINCT json_extract(text, '$.model') FROM requests{within if role is not None else ''}"
    for path in paths:
        with closing(opened(path)) as db, faults_of(path):
            for (text,) in db.execute(query, () if role is None else (role,)):
                if isinstance(text, str) and isinstance(identity := json.loads(text), dict):
                    yield identity


def lost_arrays(paths: Iterable[Path], runs: Iterable[str]) -> dict[str, int]:
    """Return model -> number of array answers to these runs (`CELL/SEED`) whose numbers no file holds any more; models
    without such answers are omitted."""
    found: dict[str, str] = {}
    with ExitStack() as stack:
        files = {path: stack.enter_context(closing(opened(path))) for path in paths}
        query = f"SELECT key, model FROM answers WHERE {WITHIN} AND value LIKE '{ARRAYS}' AND NOT {HAS_ARRAY}"
        for path, db in files.items():
            with faults_of(path):
                for key, model in db.execute(query, (dumps([*runs]),)):
                    kept = "SELECT 1 FROM arrays WHERE key = ? LIMIT 1"
                    if key not in found and not any(each.execute(kept, (key,)).fetchone() for each in files.values()):
                        found[key] = model
    return dict(Counter(found.values()))


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Hold the right to change the merged cassette of a directory. Who begins to read it on another machine waits for
    its end once, when the lease of its runs shows already that it is there."""
    lock = Lease(directory, "cassette")
    lock.acquire(MERGING, tell=leases.warn)
    try:
        yield
    finally:
        lock.release()


def merge(directory: Path, finished: Collection[str] = (), alone: Callable[[], bool] = lambda: True) -> None:
    """Merge every shard whose process has ended into the directory's cassette and remove it; shards in use stay. Arrays
    that answered the runs `finished` are dropped. Do nothing unless `alone()`, which is asked while nobody can begin to
    read.

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
    if not abandoned(shard):
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


def abandoned(shard: Path) -> bool:
    """Return whether no process has a shard open; if so, its write-ahead log is merged into it."""
    try:
        with closing(opened(shard, "rw", timeout=0.0)) as db, faults_of(shard):
            db.execute("PRAGMA journal_mode = DELETE")  # granted only to the one process that has the file open
    except InUse:
        return False
    return True
