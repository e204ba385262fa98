"""Remove paths and addresses of the submitter's machine from the texts of a study."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from guidebench.harness import registry, settings

HIDDEN = "…"
_ABSOLUTE = r"(?:~[\w.-]*|[A-Za-z]:)?[/\\]"
_ADDRESS = re.compile(r"\w[\w+.-]*://\S+")
_PATH = re.compile(rf"(?<![\w./\\~{HIDDEN}])(?:file:(?://)?)?{_ABSOLUTE}[^\s'\",;:()\[\]{{}}<>|]+")
_BEGINS = re.compile(rf"['\"\[]*(?:file:(?://)?)?{_ABSOLUTE}\S")
_URL = "base_url"
"""Setting with the address of a server, which may be private; results do not depend on it."""


def without_places(text: str) -> str:
    """Return a text with addresses and absolute paths hidden.

    >>> without_places("http://me:secret@10.1.2.3/v1 does not answer")
    '… does not answer'
    >>> without_places("No space left on device: '/srv/me/runs/x', at 1/2 of the steps")
    "No space left on device: '…', at 1/2 of the steps"
    """
    home = str(Path.home())
    text = _ADDRESS.sub(HIDDEN, text)
    return _PATH.sub(HIDDEN, text.replace(home, HIDDEN) if len(home) > 1 else text)


def word(text: str) -> str:
    """Return a word of a command with paths hidden: `output=/srv/me/my runs/x` becomes `output=…`."""
    key, equals, value = text.partition("=")
    if equals and (_BEGINS.match(value) or key.endswith(_URL)):
        return f"{key}={HIDDEN}"
    return HIDDEN if _BEGINS.match(text) else without_places(text)


def last_line(error: str) -> str:
    """Return the last line of a traceback, with addresses and paths hidden."""
    return without_places(error.strip().splitlines()[-1])[:500] if error.strip() else ""


def without_servers(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's record without the addresses of servers and the places of files, such as a table of preferences
    or the weights of a model with a digest: settings that no cell id hashes. Instead of a model's place it has the
    model's name."""
    hidden: dict[str, Any] = {name: None for name in cell["settings"] if name.endswith(f".{_URL}")}
    hidden |= dict.fromkeys(_placed(cell["suite"])) | _located(cell)
    values = {
        name: {**setting, "value": hidden[name]} if name in hidden else setting
        for name, setting in cell["settings"].items()
    }
    public = {**cell, "settings": values}
    if "overrides" in cell:
        public["overrides"] = {name: hidden.get(name, value) for name, value in cell["overrides"].items()}
    if "stage" in cell:
        public["stage"] = without_servers(cell["stage"])
    return public


def _located(cell: Mapping[str, Any]) -> dict[str, str]:
    """Return setting -> replacement, for each setting that holds a path to files whose digest the record has: the
    model's name, or "" for a dataset."""
    replacements = {}
    for role, part in cell.get("parts", {}).items():
        if cell["settings"].get(f"{role}.{settings.DIGEST}", {}).get("value") is None:
            continue
        if part["name"] not in registry.names(part["kind"]):
            continue
        for name, field in settings.fields(registry.get(part["kind"], part["name"])).items():
            text = cell["settings"].get(key := f"{role}.{name}", {}).get("value")
            if field.located and isinstance(text, str) and (_BEGINS.match(text) or text.startswith(".")):
                replacements[key] = str(part.get("model", ""))
    return replacements


def _placed(suite: str) -> list[str]:
    """Return the names of the installed suite's settings that are excluded from cell ids."""
    if suite not in registry.names("suite"):
        return []
    fields = settings.fields(registry.get("suite", suite))
    return [f"suite.{name}" for name, field in fields.items() if field.transport]


def places_in(cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting of a cell and its stages that contains a path or an address, with the first one; they stay,
    because the cell's id hashes them."""
    for name, setting in cell["settings"].items():
        values = setting["value"] if isinstance(setting["value"], list) else [setting["value"]]
        for text in values:
            if isinstance(text, str) and (place := _ADDRESS.search(text) or _PATH.search(text)):
                yield name, place[0]
                break
    if "stage" in cell:
        yield from ((f"pretraining.{name}", place) for name, place in places_in(cell["stage"]))
