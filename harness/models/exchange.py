"""Statistics, export and import of recorded calls."""

from __future__ import annotations

import functools
import lzma
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, size
from guidebench.harness.models import cassette_checks
from guidebench.harness.models.backends.faults import REMOVED, secrets
from guidebench.harness.models.calls import Usage
from guidebench.harness.models.cassette import MERGED, files, writing
from guidebench.harness.models.cassette_file import (
    STRANGERS,
    USAGE_COLUMNS,
    copy,
    create,
    faults_of,
    opened,
    transaction,
    uri,
)
from guidebench.harness.models.spending import Account, Purpose, by_purpose, read_account
from guidebench.harness.settings import SHA256

COMPRESSED = ".xz"
"""Ending of the name of a compressed cassette."""
MOST, TIMES = 2**31, 1_000
"""Most bytes of a decompressed cassette, and most bytes for each byte of the file."""
MEMORY, BLOCK = 2**27, 2**20
"""Most bytes of memory that the decompressor may use, and bytes that are decompressed at a time."""
EXCHANGED_TABLES = ("images", "requests", "answers", "arrays", "failures")
"""Tables that are exported and imported; `spent` stays with its own study."""
COUNTING_TABLES = {
    "answers": f"key, model, {USAGE_COLUMNS}, PRIMARY KEY (key)",
    "failures": "key, run, ordinal, model, kind, PRIMARY KEY (key, run, ordinal)",
    "images": "digest, length, PRIMARY KEY (digest)",
    "spent": f"model, run, {USAGE_COLUMNS}",
}
"""Temporary tables for counting: each question, failure and image counts once, even if several files hold it."""


DIGESTS = """
    SELECT DISTINCT answers.model, json_extract(requests.text, '$.model.digest')
    FROM origin.answers AS answers JOIN origin.requests AS requests USING (key)
"""
"""Reads the digest of each model with answers."""


class ModelRecords(NamedTuple):
    """Recorded calls of one model."""

    model: str
    answers: Usage
    """Usage of the recorded answers when they were made; `calls` counts the questions."""
    failures: Mapping[str, int]
    """Kind of failure -> number of questions that ended with it."""
    spent: Usage
    """Usage that this study actually incurred; `calls` counts requests."""
    purposes: Mapping[Purpose, Usage] = {}
    """Purpose -> part of `spent`: the answers of runs, first calls to the model, and probes."""
    digests: tuple[str, ...] = ()
    """Digests under which its calls are recorded: of the files of a model that ran where they were recorded."""


class Stats(NamedTuple):
    """Recorded calls of each model, and the recorded images."""

    models: list[ModelRecords]
    images: int
    image_bytes: int


def stats(source: Path) -> Stats:
    """Return statistics of the recorded calls in a study's directory or a cassette file, which a separate process
    reads."""
    return reader_process.call(f"{source}: counting its calls", _seconds(source), read_stats, source)


def read_stats(source: Path) -> Stats:
    """Return what `stats` returns, read in this process."""
    paths = _files(source)
    with closing(sqlite3.connect("", uri=True, isolation_level=None)) as db:  # temporary, on disk where it is large
        for table, columns in COUNTING_TABLES.items():
            db.execute(f"CREATE TABLE {table} ({columns})")
        digests: dict[str, set[str]] = {}
        for path in paths:
            with _attached(db, path), faults_of(path):
                for model, digest in db.execute(DIGESTS):
                    if isinstance(digest, str) and SHA256.fullmatch(digest):
                        digests.setdefault(model, set()).add(digest)
            with _attached(db, path):
                for table, columns in COUNTING_TABLES.items():
                    named = columns.partition(", PRIMARY")[0].replace("length", "length(png)")
                    db.execute(f"INSERT OR IGNORE INTO main.{table} SELECT {named} FROM origin.{table}")
        with faults_of(source):
            answers, spent = _answers(db), _spent(db)
            failures: dict[str, dict[str, int]] = {}
            for model, kind, count in db.execute("SELECT model, kind, COUNT(*) FROM failures GROUP BY model, kind"):
                failures.setdefault(model, {})[kind] = count
            images, size = db.execute("SELECT COUNT(*), COALESCE(SUM(length), 0) FROM images").fetchone()
    models = [
        ModelRecords(
            model, answers.get(model, Usage()), failures.get(model, {}),
            functools.reduce(Usage.plus, spent.get(model, {}).values(), Usage()), by_purpose(spent.get(model, {})),
            tuple(sorted(digests.get(model, ()))),
        )
        for model in sorted({*answers, *spent, *failures})
    ]  # fmt: skip
    return Stats(models, images, size)


def export(study: Path, file: Path) -> int:
    """Write every recorded call of a study to a new file atomically, compressed if its name ends in `.xz`; return the
    number of calls. A separate process reads the study."""
    if file.exists():
        raise UserError(f"{file} is there already; name a new file, or remove it")
    return reader_process.call(f"{study}: exporting its calls", _seconds(study), _export, study, file, secrets())


def _seconds(source: Path) -> float:
    """Return the time limit for reading the cassettes of a study, or a cassette."""
    return cassette_checks.total_seconds([source] if source.is_file() else (source / "models").glob("*.sqlite"))


def _export(study: Path, file: Path, secret_values: Mapping[str, str]) -> int:
    paths = _files(study)
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    packed = partial.with_suffix(COMPRESSED)
    try:
        create(partial)
        with closing(opened(partial, "rw")) as db:
            for path in paths:
                with _attached(db, path), transaction(db):
                    copy(db, EXCHANGED_TABLES, "origin")
            with transaction(db):
                _scrub(db, study, secret_values)
            count = _count(db)
        if file.suffix == COMPRESSED:
            if (count_of_bytes := partial.stat().st_size) > MOST:
                raise UserError(
                    f"the calls of {study} take {size(count_of_bytes)}, and an import decompresses at most "
                    f"{size(MOST)}; name the file without {COMPRESSED}"
                )
            with partial.open("rb") as plain, lzma.open(packed, "xb") as stream:
                shutil.copyfileobj(plain, stream)
        os.replace(packed if file.suffix == COMPRESSED else partial, file)
    finally:
        partial.unlink(missing_ok=True)
        packed.unlink(missing_ok=True)
    return count


def _scrub(db: sqlite3.Connection, study: Path, secret_values: Mapping[str, str]) -> None:
    """Remove API keys, given by the names of their variables, from answers and details. Raise UserError if a question
    contains one, because a question cannot change without invalidating the hash that identifies it."""
    for name, secret in secret_values.items():
        (count,) = db.execute("SELECT COUNT(*) FROM requests WHERE instr(text, ?)", (secret,)).fetchone()
        if count:
            raise UserError(
                f"{count} of the questions recorded in {study} hold the value of {name}, so nothing was exported; "
                f"answer them anew without it, or change that key and unset {name}"
            )
        for table, column in (("answers", "value"), ("answers", "detail"), ("failures", "detail")):
            db.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE instr({column}, ?)",
                (secret, REMOVED, secret),
            )


def import_(file: Path, study: Path) -> int:
    """Import the calls of a file, compressed if its name ends in `.xz`, into a study's cassette, all or none; return
    the number of calls in the file.

    Raises UserError naming the first table row that this program would not record, and for a file that decompresses to
    more than `MOST` bytes or `TIMES` its size. A separate process reads the file.
    """
    if study.exists() and not study.is_dir():
        raise UserError(f"{study} is a file; name the directory of a study, or a new one")
    with tempfile.TemporaryDirectory(prefix="guidebench-import-") as scratch:
        plain = file
        if file.suffix == COMPRESSED:
            plain = Path(scratch, file.stem)
            reader_process.call(f"{file}: decompressing it", cassette_checks.seconds(file), _decompress, file, plain)
        seconds = cassette_checks.seconds(plain)
        reader_process.call(f"{file}: looking at it", seconds, cassette_checks.verify, plain)
        return reader_process.call(f"{file}: importing it", seconds, _import, plain, study)


def _decompress(file: Path, plain: Path) -> None:
    """Write the decompressed content of a file. Raise UserError for a file that is no xz stream, or cut off, and for
    more content than `import_` takes."""
    most, total = min(MOST, TIMES * file.stat().st_size), 0
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    with file.open("rb") as source, plain.open("xb") as target:
        while not stream.eof:
            block = source.read(BLOCK) if stream.needs_input else b""
            if stream.needs_input and not block:
                raise UserError(f"{file} is cut off; nothing of it is used: ask for another copy")
            try:
                plain_bytes = stream.decompress(block, max_length=BLOCK)
            except lzma.LZMAError as error:
                raise UserError(f"{file} cannot be decompressed ({error}); ask for another copy") from None
            total += len(plain_bytes)
            if total > most:
                raise UserError(f"{file} decompresses to more than {size(most)}, which no exported cassette does")
            target.write(plain_bytes)


def _import(file: Path, study: Path) -> int:
    directory = study / "models"
    with writing(directory):
        create(directory / MERGED)
        with (
            closing(opened(directory / MERGED, "rw")) as db,
            _attached(db, file, STRANGERS),
            faults_of(directory / MERGED),
            transaction(db),
        ):
            copy(db, EXCHANGED_TABLES, "origin")
    with closing(opened(file, STRANGERS)) as db:
        return _count(db)


def _files(source: Path) -> list[Path]:
    """Return the cassettes of a study, or the named cassette."""
    cassettes = [source] if source.is_file() else files(source / "models")
    if not cassettes:
        raise UserError(f"{source} holds no recorded calls; name a study that recorded some, or a cassette")
    return cassettes


@contextmanager
def _attached(db: sqlite3.Connection, path: Path, mode: str = "ro") -> Iterator[None]:
    """Attach a cassette as `origin`."""
    opened(path, mode).close()
    with faults_of(path):
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("ATTACH ? AS origin", (uri(path, mode),))
        try:
            yield
        finally:
            db.execute("DETACH origin")


def _spent(db: sqlite3.Connection) -> dict[str, dict[Account, Usage]]:
    """Return model -> account -> usage spent."""
    sums = ", ".join(f"SUM({name})" for name in Usage._fields)
    usage_of_model: dict[str, dict[Account, Usage]] = {}
    for model, run, *took in db.execute(f"SELECT model, run, {sums} FROM spent GROUP BY model, run"):
        usage_of_model.setdefault(model, {})[read_account(str(run))] = Usage(*took)
    return usage_of_model


def _answers(db: sqlite3.Connection) -> dict[str, Usage]:
    """Return model -> usage of its answers; `calls` counts the questions."""
    sums = ", ".join(f"SUM({name})" for name in Usage._fields[1:])
    query = f"SELECT model, COUNT(*), {sums} FROM answers GROUP BY model"
    return {model: Usage(*took) for model, *took in db.execute(query)}


def _count(db: sqlite3.Connection) -> int:
    """Return the number of recorded answers and failures over all runs."""
    (count,) = db.execute("SELECT (SELECT COUNT(*) FROM answers) + (SELECT COUNT(*) FROM failures)").fetchone()
    return int(count)
