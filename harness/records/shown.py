"""Formatting of a study for the terminal and for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from guidebench.harness.errors import count
from guidebench.harness.records.schema import STATUSES

MOST = 200
"""Maximum rows of a table in a notebook."""


def counted(statuses: Iterable[str]) -> str:
    """Count runs by status.

    >>> counted(["finished", "running", "waiting", "waiting"])
    '1 of 4 runs finished, 2 waiting, 1 running'
    """
    counts = Counter(statuses)
    parts = [f"{counts['finished']} of {count(counts.total(), 'run')} finished"]
    parts += [f"{counts[status]} {status}" for status in STATUSES if status != "finished" and counts[status]]
    return ", ".join(parts)


def line(name: str, directory: Path, statuses: Iterable[str]) -> str:
    """Describe a study in one line."""
    return f"study {name} in {directory}: {counted(statuses)}"


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML; all texts are escaped, since a study may come from an untrusted source."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[:MOST])
    if len(rows) > MOST:
        body += f'<tr><td colspan="{len(headings)}">and {count(len(rows) - MOST, "more run")}</td></tr>'
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def last_line(error: str | None) -> str:
    """Return the last line of a traceback, or "" if there is no error."""
    return (error or "").strip().rsplit("\n", 1)[-1]
