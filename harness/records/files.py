"""Atomic writes of small files, so that a crash leaves either the old or the new content, and append-only logs.

The files may be on a network disk, where new names appear late, requests are repeated after a lost reply, and file
handles become stale."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, TypeVar

from guidebench.harness.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")


def retry_once(call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return the result of a call; repeat it once if a network disk had replaced a file that it used (ESTALE)."""
    try:
        return call(*args, **named)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        return call(*args, **named)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading bytes. Raise OSError for anything else that may lie in its place: opening a FIFO
    would wait for a writer, and a device may have no end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_regular(path: Path, status: os.stat_result | None = None) -> None:
    """Raise OSError unless a path is a regular file, for libraries that open it themselves. `status`: that of the file,
    if it is known."""
    mode = (status or os.stat(path)).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a FIFO, a socket or a device, and no regular file", str(path))


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; raise OSError as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def content_of(path: Path, most: int) -> bytes:
    """Return the content of a regular file; raise UserError if it has more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path.name} has {path.stat().st_size:,} bytes; at most {most:,} are read")
    return content


def is_within(root: Path, path: Path) -> bool:
    """Return whether a path is a file below `root` after following links."""
    return path.is_file() and path.resolve().is_relative_to(root.resolve())


def refresh(directory: Path) -> None:
    """Make this machine see the present names of a directory. An NFS client caches for up to a minute which names exist
    and which do not, unless it sees the directory's mtime change, which creating a file does (nfs(5), "Directory entry
    caching"). No effect if the directory cannot be written."""
    temporary = directory / f".{uuid.uuid4().hex}"
    with suppress(OSError):
        temporary.touch()
        temporary.unlink()


def move(source: Path, target: Path) -> None:
    """Rename a file that only this process writes. If the source is missing, a repeated request may have moved it
    already, which counts as success."""
    try:
        os.replace(source, target)
    except FileNotFoundError:
        refresh(target.parent)
        if os.path.lexists(source) or not os.path.lexists(target):
            raise


def sync(directory: Path) -> None:
    """Flush all files below a directory to disk, including data written through memory maps, which closing them leaves
    unflushed."""
    for path in directory.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def nothing() -> None:
    """Do nothing: the fence of a write that needs no lease."""


def write_json(path: Path, content: Any, fence: Callable[[], None] = nothing) -> None:
    """Write a JSON file atomically, as `write_bytes` does."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode(), fence)


def write_bytes(path: Path, content: bytes, fence: Callable[[], None] = nothing) -> None:
    """Write a file atomically: write a temporary file beside it, flush it to disk, rename it. `fence` is called before
    the rename and raises an error if this process may not write any more. Should it sleep between the two, whoever took
    over can forestall the rename by deleting the temporary file (`drop_unfinished`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()[:64]}.{os.getpid()}")
    try:
        retry_once(_write, temporary, path, content, fence)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _write(temporary: Path, path: Path, content: bytes, fence: Callable[[], None]) -> None:
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fence()
    try:
        os.replace(temporary, path)
    except FileNotFoundError:  # it was repeated since its reply was lost, or somebody took over and deleted its source
        fence()
        refresh(path.parent)
        if not path.exists() or path.read_bytes() != content:
            raise


def drop_unfinished(directory: Path, name: str = "") -> None:
    """Delete the temporary files of writes that have not been renamed, of the file `name` or of all."""
    for path in directory.glob(f".{name}.*" if name else ".*"):
        if path.is_file():
            path.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raise a UserError that names the file if it cannot be read."""
    try:
        return json.loads(retry_once(read_regular, path).decode("utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}); restore it or delete the run's directory") from None


class Rows:
    """A JSON-lines log that is truncated to a checkpoint's byte offset on resume."""

    def __init__(self, path: Path, offset: int | None) -> None:
        """Open the log and truncate it to `offset` bytes; None appends at its end, 0 empties it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
        if offset is not None:
            size = self._file.tell()
            if size < offset:
                raise UserError(
                    f"{path} holds {size} bytes but its checkpoint counts {offset}: rows were lost; "
                    f"delete the run's directory to train it anew"
                )
            self._file.truncate(offset)

    def append(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def flush(self) -> int:
        """Flush all lines to disk and return the size of the file in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
