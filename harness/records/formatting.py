"""Formatting of a study for the terminal and for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from guidebench.harness.errors import count
from guidebench.harness.records.schema import STATUSES
from guidebench.harness.texts import one_line

MOST = 200
"""Maximum rows of a table in a notebook."""
ERRORS = 5
"""Maximum number of different errors below a study's line."""


def counted(statuses: Iterable[str]) -> str:
    """Count runs by status.

    >>> counted(["finished", "running", "waiting", "waiting"])
    '1 of 4 runs finished, 2 waiting, 1 running'
    """
    counts = Counter(statuses)
    parts = [f"{counts['finished']} of {count(counts.total(), 'run')} finished"]
    parts += [f"{counts[status]} {status}" for status in STATUSES if status != "finished" and counts[status]]
    return ", ".join(parts)


def report(name: str, directory: Path, runs: Iterable[tuple[str, str, str | None]]) -> str:
    """Describe a study in a line, and below it each error of its runs once; `runs`: name, status and error of each.

    >>> print(report("grid", Path("runs/grid"), [("per seed 0", "failed", "ValueError: no"), ("per seed 1", "failed",
    ...     "Traceback …\\nValueError: no"), ("per seed 2", "finished", None)]))
    study grid in runs/grid: 1 of 3 runs finished, 2 failed
      per seed 0 and 1 more run: ValueError: no
    """
    standings = [*runs]
    alike: dict[str, list[str]] = {}
    for run, _, error in standings:
        if error:
            alike.setdefault(last_line(error), []).append(run)
    lines = [line(name, directory, (status for _, status, _ in standings))]
    for error, names in [*alike.items()][:ERRORS]:
        others = f" and {count(len(names) - 1, 'more run')}" if names[1:] else ""
        lines.append(f"  {names[0]}{others}: {one_line(error)}")
    if len(alike) > ERRORS:
        lines.append(f"  and {count(len(alike) - ERRORS, 'more error')}; `bench status {directory}` shows all")
    return "\n".join(lines)


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
