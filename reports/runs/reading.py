"""Bounded reading of a run's files: whatever their size, only a limited part is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records.files import open_regular
from guidebench.results.images import size

DOCUMENT = 2**20
"""Most bytes of a JSON document."""
TAIL = 2**18
"""Bytes at a log's end that are read."""
LINE = 2_000
"""Most characters of a line of a log."""
TEXT = 4_000
"""Most characters of any other text."""


def within(root: Path, path: Path) -> bool:
    """Return whether a path is a file below `root` after following links."""
    return path.is_file() and path.resolve().is_relative_to(root.resolve())


def content(path: Path, most: int) -> bytes:
    """Read a file; raise UserError if it has more than `most` bytes."""
    with open_regular(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise UserError(f"{path.name} has {path.stat().st_size:,} bytes and at most {most:,} are shown")
    return raw


def document(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file, parsed in a separate process; raise UserError if the file contains anything
    else."""
    return reader_process.call(f"{path.name}: reading it", reader_process.SECONDS, _document, path)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(content(path, DOCUMENT))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path.name} cannot be read as JSON ({error})") from None
    if not isinstance(document, dict):
        raise UserError(f"{path.name} holds {type(document).__name__}; expected a JSON object")
    return document


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


def brief(text: str, most: int = TEXT) -> str:
    """Return a text for display: characters that control a terminal or the direction of writing are made visible, and
    characters beyond `most` are counted instead."""
    visible = "".join(_visible(letter) for letter in text[:most])
    return visible if len(text) <= most else f"{visible} … ({len(text) - most:,} characters left out)"


def _visible(letter: str) -> str:
    if letter.isprintable() or letter in "\n\t":
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{{{code:x}}}"


def names(directory: Path, endings: tuple[str, ...], most: int) -> tuple[list[str], int]:
    """Return the first `most` names in a directory with this ending, sorted, and the number of further ones."""
    if not directory.is_dir():
        return [], 0
    with os.scandir(directory) as files:
        matching = sorted(file.name for file in files if file.name.lower().endswith(endings))
    return matching[:most], max(0, len(matching) - most)
