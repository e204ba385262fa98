"""Bounded reading of a run's files: whatever their size, only a limited part is read."""

from __future__ import annotations

import os
from pathlib import Path

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import open_regular
from guidebench.harness.texts import brief
from guidebench.results.images import size

TAIL = 2**18
"""Bytes at a log's end that are read."""
LINE = 2_000
"""Most characters of a line of a log."""


def pixels(png: bytes) -> int:
    """Return the number of pixels that a PNG declares (width times height); raise UserError for anything else."""
    width, height = size(png)
    if not width or not height:
        raise UserError("no PNG")
    return width * height


def tail(path: Path, lines: int) -> tuple[str, int]:
    """Return the last lines of a text, each cut to `LINE` characters, and the number of bytes before them."""
    size = path.stat().st_size
    with open_regular(path) as file:
        file.seek(max(0, size - TAIL))
        raw = file.read(TAIL)
    if size > TAIL:
        raw = raw[raw.find(b"\n") + 1 :]  # whole lines, unless there is only one
    ending = b"".join(raw.splitlines(keepends=True)[-lines:])
    text = ending.decode("utf-8", "replace")
    return "\n".join(brief(line, LINE) for line in text.splitlines()), size - len(ending)


def names(directory: Path, endings: tuple[str, ...], most: int) -> tuple[list[str], int]:
    """Return the first `most` names in a directory with this ending, sorted, and the number of further ones."""
    if not directory.is_dir():
        return [], 0
    with os.scandir(directory) as files:
        matching = sorted(file.name for file in files if file.name.lower().endswith(endings))
    return matching[:most], max(0, len(matching) - most)
