"""Atomic writes of small files, so that a crash leaves either the old or the new content, and append-only logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file beside it, flush it to disk, rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raise a UserError that names the file if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
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
