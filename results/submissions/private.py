"""What a study's texts tell about the machine it ran on, taken out: a submission need not say where its maker lives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HIDDEN = "…"
_ABSOLUTE = r"(?:~[\w.-]*|[A-Za-z]:)?[/\\]"
_PATH = re.compile(rf"(?<![\w.:/\\~{HIDDEN}])(?:file:(?://)?)?{_ABSOLUTE}[^\s'\",;:()\[\]{{}}<>|]+")
_BEGINS = re.compile(rf"['\"\[]*(?:file:(?://)?)?{_ABSOLUTE}\S")
_URL = "base_url"
"""Setting that names a server, perhaps one of its maker's own; no result depends on it."""


def without_paths(text: str) -> str:
    """A text whose absolute paths are hidden.

    >>> without_paths("No space left on device: '/srv/me/runs/x', at 1/2 of the steps")
    "No space left on device: '…', at 1/2 of the steps"
    """
    home = str(Path.home())
    return _PATH.sub(HIDDEN, text.replace(home, HIDDEN) if len(home) > 1 else text)


def word(text: str) -> str:
    """A word of a command: `output=/srv/me/my runs/x` becomes `output=…`."""
    key, equals, value = text.partition("=")
    if equals and (_BEGINS.match(value) or key.endswith(_URL)):
        return f"{key}={HIDDEN}"
    return HIDDEN if _BEGINS.match(text) else without_paths(text)


def last_line(error: str) -> str:
    """What went wrong, without the traceback and the paths in it."""
    return without_paths(error.strip().splitlines()[-1])[:500] if error.strip() else ""


def without_servers(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's record in which no setting names a server."""
    settings = {
        name: {**entry, "value": None} if name.endswith(f".{_URL}") else entry
        for name, entry in cell["settings"].items()
    }
    told = {**cell, "settings": settings}
    if "overrides" in cell:
        told["overrides"] = {
            name: None if name.endswith(f".{_URL}") else value for name, value in cell["overrides"].items()
        }
    return told


def paths_in(cell: Mapping[str, Any]) -> list[str]:
    """The settings of a cell whose value is a path of this machine; a cell's id hashes them, so they stay."""
    return [
        name
        for name, entry in cell["settings"].items()
        if isinstance(entry["value"], str) and _BEGINS.match(entry["value"])
    ]
