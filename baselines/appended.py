"""A file that only grows, whose length and checksum a checkpoint holds instead of its content."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import State


class Appended:
    """The file of one seed. What it holds beyond an older checkpoint is overwritten after a resume."""

    def __init__(self, file: Path, holds: str) -> None:
        """`holds`: its content in words, for errors."""
        self._file, self._holds = file, holds
        self._size, self._sum = 0, 0
        """Bytes that belong to the file, and their CRC-32."""

    def append(self, new: bytes) -> State:
        """Append bytes, which are on disk when this returns, and return the file's length and checksum."""
        if new:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with open(self._file, "r+b" if self._file.exists() else "w+b") as file:
                file.truncate(self._size)
                file.seek(self._size)
                file.write(new)
                file.flush()
                os.fsync(file.fileno())
        self._size, self._sum = self._size + len(new), zlib.crc32(new, self._sum)
        return {"bytes": self._size, "checksum": self._sum}

    def restore(self, state: State) -> bytes:
        """Return the content that a checkpoint refers to; UserError if the file does not hold it any more."""
        size, content = int(state["bytes"]), b""
        if size and self._file.exists():
            with open(self._file, "rb") as file:
                content = file.read(size)
        if len(content) != size or zlib.crc32(content) != state["checksum"]:
            raise UserError(
                f"{self._file} does not hold the {self._holds} that were written to it; restore the file, or delete "
                f"{self._file.parent.parent} to train the run anew"
            )
        self._size, self._sum = size, int(state["checksum"])
        return content
