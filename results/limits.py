"""Size limits of a study's directory, which may be untrusted; they are checked before any file is parsed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError

MIB = 2**20


class Bound(NamedTuple):
    """Most bytes of one file, and of all files of that name in a study together"""

    per_file: int
    together: int


BOUNDS = {
    "study.json": Bound(8 * MIB, 8 * MIB),
    "cell.json": Bound(MIB, 128 * MIB),
    "run.json": Bound(MIB, 64 * MIB),
    "evaluations.parquet": Bound(16 * MIB, 512 * MIB),
    "evaluations.jsonl": Bound(16 * MIB, 64 * MIB),
    "ledger.jsonl": Bound(16 * MIB, 64 * MIB),
    "answers.parquet": Bound(256 * MIB, 4096 * MIB),
}
"""Limits of the files that are read of every run, and of its answers of models. Other files are not opened, or their
readers limit them."""
ENTRIES = 500_000
"""Most files and directories of a study."""
DEPTH = 16
ROWS = 250_000
"""Most rows of a Parquet file."""
ALL_ROWS = 2_000_000
"""Most rows of all Parquet files of a study together."""
COLUMNS = 1_000
"""Most columns of a Parquet file."""
NAME = 300
"""Most characters of a name."""
TEXTS = 2**17
"""Most bytes of a dictionary-encoded text column in a Parquet file."""
ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
"""Accepted encodings of text columns."""
UNPACKED = 64 * MIB
"""Most bytes of a Parquet file's rows when unpacked."""
_THRIFT = 2**20  # bytes of a text, and entries of a list, in a Parquet footer


def check(directory: Path) -> None:
    """Raise UserError if a study's directory contains links or irregular files, or exceeds a limit."""
    together = dict.fromkeys(BOUNDS, 0)
    for file in _files(directory):
        name = file.name
        if name in BOUNDS:
            size = file.stat(follow_symlinks=False).st_size
            together[name] += size
            for total, most, subject in (
                (size, BOUNDS[name].per_file, f"{file.path} has"),
                (together[name], BOUNDS[name].together, f"{directory}: its files {name} together have"),
            ):
                if total > most:
                    raise UserError(f"{subject} {total:,} bytes; at most {most:,} are read")


def _files(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a directory; raise UserError for links, too many entries, or a known name that is not a
    file."""
    waiting, count = [(os.fspath(directory), 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEPTH:
            raise UserError(f"{directory}: its directories lie more than {DEPTH} deep")
        try:
            with os.scandir(folder) as dir_entries:
                for dir_entry in dir_entries:
                    count += 1
                    if count > ENTRIES:
                        raise UserError(f"{directory} holds more than {ENTRIES:,} files; that is no study")
                    if dir_entry.is_symlink():
                        raise UserError(f"{dir_entry.path} is a link; a study holds its files itself")
                    if dir_entry.is_file(follow_symlinks=False):
                        yield dir_entry
                    elif dir_entry.name in BOUNDS:
                        raise UserError(f"{dir_entry.path} is no regular file")
                    elif dir_entry.is_dir(follow_symlinks=False):
                        waiting.append((dir_entry.path, depth + 1))
        except OSError as error:
            raise UserError(f"{folder} cannot be read ({error.strerror})") from None


def footer(path: Path) -> Any:
    """Return pyarrow's metadata of a Parquet file; raise UserError if it exceeds a limit.

    A damaged footer can crash the library and its process, so untrusted files must be read in a separate process
    (`guidebench.harness.reader_process`).
    """
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, thrift_string_size_limit=_THRIFT, thrift_container_size_limit=_THRIFT) as file:
            metadata = file.metadata
            _check_footer(path, metadata)
    except UserError:
        raise
    except Exception as error:  # a footer may hold anything, such as invalid UTF-8 or numbers out of range
        problem = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise UserError(f"{path} cannot be read as Parquet ({problem})") from None
    return metadata


def _check_footer(path: Path, metadata: Any) -> None:
    """Raise UserError if a footer exceeds a limit or repeats a column name."""
    if metadata.num_columns > COLUMNS:
        raise UserError(f"{path} has {metadata.num_columns:,} columns; at most {COLUMNS:,} are read")
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    for numbers, most, unit in (
        ([group.num_rows for group in groups], ROWS, "rows"),
        ([group.total_byte_size for group in groups], UNPACKED, "bytes when unpacked"),
    ):
        if min(numbers, default=0) < 0 or sum(numbers) > most:
            raise UserError(f"{path} has {sum(numbers):,} {unit}; at most {most:,} are read")
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise UserError(f"{path} has the column {min(repeated)[:100]!r} twice")
    for group in groups:
        for column in map(group.column, range(group.num_columns)):
            _check_column(path, column, group.num_rows)


def _check_column(path: Path, column: Any, rows: int) -> None:
    """Raise UserError for a text column that could expand to far more memory than the file's bytes."""
    if column.physical_type != "BYTE_ARRAY":
        return
    name, once = (
        column.path_in_schema[:100],
        "PLAIN_DICTIONARY" in column.encodings or "RLE_DICTIONARY" in column.encodings,
    )
    if not ENCODINGS.issuperset(column.encodings):
        odd = ", ".join(sorted(set(column.encodings) - ENCODINGS))
        raise UserError(f"{path}, column {name!r}: its encoding {odd} is not read; write it plainly or as a dictionary")
    most = TEXTS + (0 if once else NAME * rows)
    if not 0 <= column.total_uncompressed_size <= most:
        size = column.total_uncompressed_size
        raise UserError(f"{path}, column {name!r} has {size:,} bytes when unpacked; at most {most:,} are read")
