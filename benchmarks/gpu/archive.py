"""A study that has stopped, packed into files small enough to travel, from which its training goes on elsewhere.

The archive is a tar file compressed by xz and cut into parts. It holds all that a worker needs to continue: records,
logs, the stored transitions, and of the checkpoints the newest that all seeds of a cell have. Files of stored
transitions are allocated for the whole run and written from their beginning, so only what was written is packed, and
a file gets its length back when it is unpacked.
"""

from __future__ import annotations

import errno
import io
import lzma
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from guidebench.harness.errors import UserError

PART = 15_000_000
"""Most bytes of a part."""
NAME = "doorkey.tar.xz"
LENGTH = "GUIDEBENCH.length"
"""Header of a file whose end was never written: its length in bytes."""
LONGEST = 2**36
LEFT_OUT = (".lease", "logs", ".live.json")
CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class Parts(io.RawIOBase):
    """A file for writing that continues in a new part when one is full."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory, self._size = directory, size
        self.paths: list[Path] = []
        self._file: IO[bytes] | None = None
        self._room = 0

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        rest = memoryview(content)
        while rest:
            if not self._room:
                self._next()
            assert self._file is not None
            written = self._file.write(rest[: self._room])
            self._room, rest = self._room - written, rest[written:]
        return len(content)

    def _next(self) -> None:
        if self._file is not None:
            self._file.close()
        self.paths.append(self._directory / f".{NAME}.{len(self.paths):02d}")
        self._file, self._room = open(self.paths[-1], "wb"), self._size  # noqa: SIM115

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def pack(study: Path, directory: Path, size: int = PART) -> list[Path]:
    """Pack a study, whose workers have ended, as parts of `size` bytes in a directory, in place of older ones, and
    return the parts."""
    for path in directory.glob(f".{NAME}.*"):
        path.unlink()
    with Parts(directory, size) as parts:
        with lzma.open(parts, "wb", preset=1) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
            for path in files(study):
                _add(tar, path, str(path.relative_to(study)))
        made = parts.paths
    for path in existing(directory):
        path.unlink()
    return [path.replace(path.with_name(path.name[1:])) for path in made]


def files(study: Path) -> Iterator[Path]:
    """Yield the files of a study that its continuation needs."""
    newest: dict[Path, int] = {}
    for cell in {run.parent for run in study.rglob("seed-*") if run.is_dir()}:
        held = [
            {int(match[1]) for path in run.iterdir() if (match := CHECKPOINT.fullmatch(path.name))}
            for run in sorted(cell.glob("seed-*"))
        ]
        common = set.intersection(*held) if held else set()
        newest[cell] = max(common, default=-1)
    for path in sorted(study.rglob("*")):
        if not path.is_file() or path.is_symlink() or any(part in LEFT_OUT for part in path.relative_to(study).parts):
            continue
        match = CHECKPOINT.fullmatch(path.parent.name)
        if match and int(match[1]) != newest.get(path.parent.parent.parent, int(match[1])):
            continue
        yield path


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    length = path.stat().st_size
    with open(path, "rb") as file:
        member.size = written(file.fileno())
        if member.size < length:
            member.pax_headers = {LENGTH: str(length)}
        tar.addfile(member, file)


def written(file: int) -> int:
    """Return the offset behind the last byte of a sparse file that was written."""
    end = 0
    try:
        while True:
            begin = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
    finally:
        os.lseek(file, 0, os.SEEK_SET)
    return end


class Joined(io.RawIOBase):
    """The parts of an archive as one file for reading."""

    def __init__(self, paths: list[Path]) -> None:
        self._files = iter(paths)
        self._file: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray) -> int:  # type: ignore[override]
        while True:
            if self._file is None:
                path = next(self._files, None)
                if path is None:
                    return 0
                self._file = open(path, "rb")  # noqa: SIM115
            if count := self._file.readinto(into):  # type: ignore[attr-defined]
                return int(count)
            self._file.close()
            self._file = None


def existing(directory: Path) -> list[Path]:
    """Return the parts of the archive in a directory, in order."""
    return sorted(directory.glob(f"{NAME}.[0-9][0-9]"))


def unpack(directory: Path, study: Path) -> None:
    """Unpack the archive in a directory as a study that does not exist yet; raise UserError if it is damaged."""
    beside = study.with_name(f".{study.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    paths = existing(directory)
    try:
        source = io.BufferedReader(Joined(paths), 2**20)
        with lzma.open(source) as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                tar.extract(member, beside, filter="data")
                if LENGTH in member.pax_headers:
                    _lengthen(beside / member.name, int(member.pax_headers[LENGTH]), member.size)
    except (lzma.LZMAError, tarfile.TarError, ValueError, EOFError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise UserError(
            f"{directory / NAME}.00 to {len(paths) - 1:02d} cannot be unpacked ({error}); fetch them anew, or delete "
            f"them to begin the training anew"
        ) from None
    beside.rename(study)


def _lengthen(path: Path, length: int, size: int) -> None:
    if not size <= length <= LONGEST:
        raise ValueError(f"a length of {length} bytes")
    os.truncate(path, length)
