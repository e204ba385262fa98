"""Files of a run, read within bounds: whatever lies there, so much of it is looked at and no more."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from guidebench.harness.errors import UserError
from guidebench.results.pictures import size

DOCUMENT = 2**20
"""Most bytes of a JSON document."""
TAIL = 2**18
"""Bytes at a log's end that are looked at."""
LINE = 2_000
"""Characters of a line of a log."""
TEXT = 4_000
"""Characters of any other text."""


def within(root: Path, path: Path) -> bool:
    """Whether a path is a file that lies below `root`, links followed."""
    return path.is_file() and path.resolve().is_relative_to(root.resolve())


def content(path: Path, most: int) -> bytes:
    """The bytes of a file; UserError if there are more than `most`."""
    with open(path, "rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise UserError(f"{path.name} has {path.stat().st_size:,} bytes and at most {most:,} are shown")
    return found


def document(path: Path) -> dict[str, Any]:
    """A JSON object; UserError if the file holds anything else."""
    try:
        found = json.loads(content(path, DOCUMENT))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path.name} cannot be read as JSON ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path.name} holds {type(found).__name__}; expected a JSON object")
    return found


def pixels(png: bytes) -> int:
    """How many a PNG claims to have; UserError for what is none."""
    width, height = size(png)
    if not width or not height:
        raise UserError("no PNG")
    return width * height


def tail(path: Path, lines: int) -> tuple[str, int]:
    """The last lines of a text, each cut to `LINE` characters, and the bytes before them that were left out."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - TAIL))
        found = file.read(TAIL)
    if size > TAIL:
        found = found[found.find(b"\n") + 1 :]  # whole lines, unless there is only one
    kept = b"".join(found.splitlines(keepends=True)[-lines:])
    text = kept.decode("utf-8", "replace")
    return "\n".join(brief(line, LINE) for line in text.splitlines()), size - len(kept)


def brief(text: str, most: int = TEXT) -> str:
    """A text as a page shows it: what steers a terminal or turns the direction of writing is visible, and what is
    beyond `most` characters is counted."""
    shown = "".join(_visible(letter) for letter in text[:most])
    return shown if len(text) <= most else f"{shown} … ({len(text) - most:,} characters left out)"


def _visible(letter: str) -> str:
    if letter.isprintable() or letter in "\n\t":
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{{{code:x}}}"


def names(directory: Path, endings: tuple[str, ...], most: int) -> tuple[list[str], int]:
    """The first `most` names in a directory that end so, sorted, and how many there are more."""
    if not directory.is_dir():
        return [], 0
    with os.scandir(directory) as entries:
        found = sorted(entry.name for entry in entries if entry.name.lower().endswith(endings))
    return found[:most], max(0, len(found) - most)
