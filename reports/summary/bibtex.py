"""A parser of BibTeX entries that covers enough of the grammar to separate entries and to detect an incomplete one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_HEAD = re.compile(r"@(\w+)\s*\{\s*([^\s,{}]+)\s*,")
_FIELD = re.compile(r"\s*(\w+)\s*=\s*")


class BibEntry(NamedTuple):
    """One entry: its kind (article, misc, …), key, fields as written between their braces, and its text."""

    kind: str
    key: str
    fields: Mapping[str, str]
    text: str


def text(citation: str | Path) -> str:
    """Return the BibTeX of a part's `citation`, which is either the path of a `.bib` file or the text itself; raise
    OSError if the file is missing."""
    return citation.read_text(encoding="utf-8") if isinstance(citation, Path) else citation


def entries(text: str) -> list[BibEntry]:
    """Parse the BibTeX entries of a text; there may be none if it has only comments (lines that begin with %).

    Raises ValueError for text outside an entry, an unclosed brace, a field that is not in braces, or a repeated field.
    """
    text = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("%"))
    parsed: list[BibEntry] = []
    at = 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        head = _HEAD.match(text, at)
        if head is None:
            raise ValueError(f"expected an entry as @article{{key, …}}, found {text[at : at + 40]!r}")
        end = _closing(text, text.index("{", at))
        fields = _fields(text[head.end() : end], head[2])
        parsed.append(BibEntry(head[1].lower(), head[2], fields, text[at : end + 1]))
        at = end + 1
    return parsed


def _fields(body: str, key: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while body[at:].strip():
        name = _FIELD.match(body, at)
        if name is None or name.end() >= len(body) or body[name.end()] != "{":
            raise ValueError(f"entry {key}: expected a field as name = {{value}}, found {body[at:].strip()[:40]!r}")
        if name[1].lower() in fields:
            raise ValueError(f"entry {key}: the field {name[1]} is given twice")
        end = _closing(body, name.end())
        fields[name[1].lower()] = body[name.end() + 1 : end]
        rest = body[end + 1 :].lstrip()
        if rest and not rest.startswith(","):
            raise ValueError(f"entry {key}: expected a comma after {name[1]}, found {rest[:40]!r}")
        at = len(body) - len(rest) + 1
    return fields


def _closing(text: str, opening: int) -> int:
    """Return the index of the brace that closes the one at `opening`; a brace after a backslash is a character. Raise
    ValueError if there is none."""
    depth = 0
    for at in range(opening, len(text)):
        if text[at] in "{}" and text[at - 1 : at] != "\\":
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return at
    raise ValueError(f"the brace in {text[opening : opening + 40]!r} is not closed")
