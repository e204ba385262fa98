"""Reads files of answers (`answers.parquet`), which may be a stranger's: everything here that parses one runs in the
separate process."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import outside, reader_process, registry
from guidebench.harness.errors import UserError, count
from guidebench.harness.models.answer_records import split
from guidebench.harness.models.calls.arrays import Form, decode
from guidebench.harness.models.cassette_file import NotKept, decoded
from guidebench.harness.records.answers import FILE, QUESTION, AnswerRecord, schema
from guidebench.harness.texts import JSON, one_line

PLACES = ("", "*/", "seed-*/", "*/*/*/seed-*/")
"""Where the files of answers lie below a study, a cell or a run."""
MOST_FILES, MOST_ROWS, MOST_BYTES = 1_000, 400_000, 2**29
"""Most files that a placebo uses, rows of all of them, and bytes of a file's values (512 MiB)."""
ENOUGH = 50
"""Answers to distinct questions in a role below which a plan warns: so few hardly show how a model answers."""
THRIFT = 2**20
"""Most bytes of a text, and entries of a list, in the footer of a file."""
ROLE, SHA256 = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}"), re.compile(r"[0-9a-f]{64}")
KIND = re.compile(r"[a-z_][a-z0-9_]{0,39}(:[a-z_]{1,40})?")


class AnswerSet(NamedTuple):
    """What a placebo uses of files of answers in one role."""

    digest: str
    """SHA-256 of the role and of all its records."""
    questions: int
    """Number of distinct questions or calls that the answers were given to."""
    kinds: tuple[str, ...]
    width: int | None
    """Numbers in each vector of the answers to calls of the kind `embed`; None without any, or if they differ."""
    forms: tuple[tuple[str, str], ...] = ()
    """Kind and form, `text` or `object`, of the answers to chats; each pair once."""


def summary(source: str) -> Mapping[str, AnswerSet] | None:
    """Return role -> what its answers at a place are; None if there is no file. `source`: a file, or the directory of a
    study, a cell or a run. Raise UserError for a file that cannot be used."""
    files = located(source)
    states = tuple((status.st_size, status.st_mtime_ns, status.st_ino) for status in (file.stat() for file in files))
    return _read_summary(source, tuple(files), states) if files else None


@functools.lru_cache(maxsize=64)
def _read_summary(source: str, files: tuple[Path, ...], states: tuple[tuple[int, ...], ...]) -> Mapping[str, AnswerSet]:
    """Return the summary of files; `states` changes when a file does."""
    return reader_process.read(f"{source}: reading its answers", files, _summary, files)


def records(source: str, role: str) -> list[AnswerRecord]:
    """Return the distinct records of a role in order; raise UserError as `summary` does, or if there are none."""
    files = located(source)
    if not files:
        raise UserError(f"{role}.source={source}: no answers are there ({FILE}); restore them, or name another place")
    return reader_process.read(f"{source}: reading its answers", files, _of_role, files, role)


def located(source: str) -> list[Path]:
    """Return the files of answers at a place. Raise UserError for too many."""
    place = Path(source).expanduser()
    if not place.is_dir():
        return [place] if place.exists() else []
    paths = sorted({path for folder in PLACES for path in place.glob(f"{folder}{FILE}") if path.is_file()})
    if len(paths) > MOST_FILES:
        raise UserError(f"{source} holds {len(paths):,} files of answers; at most {MOST_FILES:,} are read: name a run")
    return paths


def lacking(role: str, source: str, roles: Iterable[str]) -> UserError:
    """Return the error for answers among which there are none of a role. `roles`: those that have some."""
    others = ", ".join(sorted(roles))
    why = f"it holds answers of {others} and none of {role}" if others else "it holds no answers"
    return UserError(
        f"{role}.source={source}: {why}; name a run whose model in the role {role!r} was asked, trained with "
        f"answers=true, or fill the role with another part ({role}=…)"
    )


def _summary(files: Sequence[Path]) -> dict[str, AnswerSet]:
    by_role: dict[str, list[AnswerRecord]] = {}
    for record in _distinct(files):
        by_role.setdefault(record.role, []).append(record)
    return {role: _answer_set(role_records) for role, role_records in by_role.items()}


def _of_role(files: Sequence[Path], role: str) -> list[AnswerRecord]:
    every = _distinct(files)
    role_records = [record for record in every if record.role == role]
    if not role_records:
        raise lacking(role, str(files[0].parent), {record.role for record in every})
    return role_records


def _answer_set(role_records: Sequence[AnswerRecord]) -> AnswerSet:
    calls = {(record.kind, record.call) for record in role_records}
    widths = {json.loads(record.answer)["shape"][-1] for record in role_records if call_kind(record.kind) == "embed"}
    forms = {
        (record.kind, str(next(iter(json.loads(record.answer)))))
        for record in role_records if call_kind(record.kind) == "chat"
    }  # fmt: skip
    return AnswerSet(
        digest(role_records), len(calls), tuple(sorted({record.kind for record in role_records})),
        widths.pop() if len(widths) == 1 else None, tuple(sorted(forms)),
    )  # fmt: skip


def digest(role_records: Sequence[AnswerRecord]) -> str:
    """Return the digest of the distinct records of a role: the SHA-256 of one line of JSON for each, in order, with an
    array's SHA-256 in place of its bytes."""
    hashed = hashlib.sha256()
    for record in role_records:
        data = None if record.data is None else hashlib.sha256(record.data).hexdigest()
        hashed.update(f"{json.dumps([*record[:-1], data])}\n".encode())
    return hashed.hexdigest()


def _distinct(files: Sequence[Path]) -> list[AnswerRecord]:
    """Return the records of files, each once, in an order that does not depend on the files."""
    every: set[AnswerRecord] = set()
    rows = 0
    for file in files:
        file_records = read(file)
        if (rows := rows + len(file_records)) > MOST_ROWS:
            raise UserError(f"{file} and those before it have {rows:,} answers; at most {MOST_ROWS:,} are read")
        every.update(file_records)
    return sorted(every, key=lambda record: (*record[:-1], record.data or b""))


def read(file: Path) -> list[AnswerRecord]:
    """Return the records of a file, each checked. Raise UserError for a file of another form, for one whose values take
    too much memory, and for an answer that is none of its kind. Call it in the separate process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [name for name in AnswerRecord._fields if name != "data"]
    limits = {"thrift_string_size_limit": THRIFT, "thrift_container_size_limit": THRIFT}
    try:
        with pq.ParquetFile(file, **limits) as opened:
            _check_footer(file, footer := opened.metadata)
        with pq.ParquetFile(file, metadata=footer, read_dictionary=texts) as opened:
            table = opened.read(use_threads=False)
        _check_bytes(file, table)
        rows: list[dict[str, Any]] = table.cast(schema()).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{file} cannot be read as a file of answers ({one_line(problem[:200])})") from None
    file_records = []
    for number, row in enumerate(rows, 1):
        if wrong := _fault(record := AnswerRecord(**row)):
            raise UserError(f"{file}, row {number}: {one_line(wrong)}; restore the file, or record its answers again")
        file_records.append(record)
    return file_records


def _check_footer(file: Path, footer: Any) -> None:
    """Raise UserError if the footer of a file declares other columns than those of answers, or too much."""
    names = [footer.schema.column(index).path for index in range(min(100, footer.num_columns))]
    if names != [*AnswerRecord._fields]:
        raise UserError(f"{file} is no file of answers: it has the columns {one_line(', '.join(names)[:200])}")
    if not 0 <= footer.num_rows <= MOST_ROWS:
        raise UserError(f"{file} has {footer.num_rows:,} answers; at most {MOST_ROWS:,} are read")
    declared = sum(footer.row_group(index).total_byte_size for index in range(footer.num_row_groups))
    if not 0 <= declared <= MOST_BYTES:
        raise UserError(f"{file} declares {declared:,} bytes of answers; at most {MOST_BYTES:,} are read")
    outside.check_packed(file, declared)


def _check_bytes(file: Path, table: Any) -> None:
    """Raise UserError if the values of a table with dictionaries would take more than `MOST_BYTES` as plain texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    taken = 0
    for column in table.columns:
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary if isinstance(chunk, pa.DictionaryArray) else chunk)
            lengths = lengths.take(chunk.indices) if isinstance(chunk, pa.DictionaryArray) else lengths
            taken += pc.sum(lengths).as_py() or 0
    if taken > MOST_BYTES:
        raise UserError(f"{file}: its answers take {taken:,} bytes; at most {MOST_BYTES:,} are read")


def _fault(record: AnswerRecord) -> str:
    """Return what is wrong with a record, or ""."""
    if any(record[index] is None for index in range(len(record) - 1)):
        return "a value is missing"
    if not ROLE.fullmatch(record.role):
        return f"{record.role[:60]!r} is no role"
    if not (SHA256.fullmatch(record.question) and SHA256.fullmatch(record.call)):
        return "question and call are no SHA-256 in hexadecimal digits"
    if record.kind != QUESTION and not (
        KIND.fullmatch(record.kind) and call_kind(record.kind) in registry.names("call")
    ):
        return f"{record.kind[:60]!r} is no kind of call"
    try:
        value_of(record)
    except (ValueError, RecursionError, NotKept) as error:
        return f"the answer is none to a call of kind {record.kind!r} ({str(error)[:200]})"
    return ""


def call_kind(kind: str) -> str:
    """Return the kind of call in the kind of a record, without its purpose."""
    return kind.partition(":")[0]


def value_of(record: AnswerRecord) -> Any:
    """Return the answer of a record, equal in type and content to the one that was kept. Raise NotKept for an array
    without bytes, and ValueError for anything else that is none."""
    if record.kind == QUESTION:
        return JSON.decode(record.answer) if record.data is None else _array(record.answer, record.data)
    kind = registry.get("call", call_kind(record.kind))
    if record.data is not None and kind.array is None:
        raise ValueError("it has the bytes of an array")
    return decoded(kind, record.answer if kind.array is None else split(record.answer)[0], record.data)


def _array(head: str, data: bytes) -> Any:
    """Return an array that answered a whole question, as `decode` does."""
    match JSON.decode(head):
        case {"array": "float16" | "float32" | "float64" as dtype, "shape": list(shape), **rest} if not rest:
            return decode(head, data, Form(dtype, len(shape)))
    raise ValueError(f"{head[:80]!r} is no array of floats")


def few(role: str, answers: AnswerSet) -> str:
    """Return a warning if a role has answers to fewer than `ENOUGH` distinct questions; else ""."""
    if answers.questions >= ENOUGH:
        return ""
    return (
        f"the placebo in the role {role!r} has the answers to {count(answers.questions, 'distinct question')}, and at "
        f"least {ENOUGH} are needed to show how a model answers; record them in a longer run"
    )
