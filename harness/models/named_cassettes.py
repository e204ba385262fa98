"""The cassettes that `models.cassette` names, which may be a stranger's.

Each of their rows is checked in the separate process (`cassette_checks`) before any other process opens the file. That
takes about half a second for each megabyte, so the user's cache remembers which files passed, by device, inode, size,
and the times of their last change; the models' processes of a study and later commands check only what has changed.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError, size
from guidebench.harness.identity import digests
from guidebench.harness.models import cassette, cassette_checks
from guidebench.harness.models.cassette_file import BESIDE
from guidebench.harness.records.files import write_bytes

CHECKED = "cassettes.json"
"""File of the user's cache that holds the states of the files which passed."""
FORMAT = 1
"""Number of the present checks: a higher one has all files checked again."""
MOST_FILES = 2_000
"""Maximum number of files that are remembered; beyond it, those that passed first are dropped."""
LARGE = 2**26
"""Bytes to be checked from which a message says so (choice: half a minute)."""
ADVICE = "nothing of it is used: ask for another copy, or name another study or file with models.cassette"


def files(named: Path) -> list[Path]:
    """Return the cassettes of a study, or the cassette that is named itself, after each of their rows was checked; none
    if there are none. Raise UserError naming the first row that this program would not have written."""
    folder = named / "models"
    listed = [folder / cassette.MERGED, *sorted(folder.glob(cassette.SHARDS))] if named.is_dir() else [named]
    paths = [path for path in listed if path.is_file()]
    states = {path: _state(path) for path in paths}
    checked = _checked()
    unknown = [path for path in paths if states[path] not in checked]
    if unknown:
        if (total := reader_process.total_bytes(unknown)) >= LARGE:
            print(f"bench: checking {size(total)} of recorded calls in {named}; this is done once", file=sys.stderr)
        seconds = cassette_checks.total_seconds(unknown)
        reader_process.call(f"{named}: looking at its recorded calls", seconds, _check, unknown)
        _remember(state for path, state in states.items() if path in unknown and state and state == _state(path))
    if not named.is_dir():
        return paths
    return [path for path in cassette.files(folder) if path in paths]


def _check(paths: Iterable[Path]) -> None:
    """Check the rows of cassettes that other processes may write meanwhile, or merge into others. Call it in the
    separate process."""
    for path in paths:
        try:
            cassette_checks.verify(path, "ro", ADVICE, (cassette_checks.UnknownKind,))
        except UserError:
            if path.is_file():
                raise


def _state(path: Path) -> str:
    """Return a text that identifies a file's content without reading it; "" if it cannot be remembered, since it
    changed lately, or a process is writing it."""
    try:
        status = path.stat()
        pending = [path.with_name(f"{path.name}{end}") for end in BESIDE]
        if any(file.stat().st_size for file in pending if file.exists()):  # a reader of a shard leaves an empty one
            return ""
    except OSError:
        return ""
    if time.time() - max(status.st_mtime, status.st_ctime) <= digests.FRESH:
        return ""
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ":".join(map(str, numbers))


def _checked() -> dict[str, None]:
    """Return the states of the files that passed, the first ones first."""
    try:
        content = json.loads((digests.cache().parent / CHECKED).read_bytes())
        return dict.fromkeys(map(str, content["files"])) if content["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _remember(states: Iterable[str]) -> None:
    """Add states of files that passed to the user's cache."""
    if new := dict.fromkeys(states):
        merged = [*_checked() | new][-MOST_FILES:]
        with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
            write_bytes(digests.cache().parent / CHECKED, json.dumps({"format": FORMAT, "files": merged}).encode())
