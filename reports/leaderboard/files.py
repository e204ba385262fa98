"""A board as files for programs: JSON with all of it, CSV with a line for each row."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from typing import Any

from guidebench.reports.leaderboard.board import Board, Entry

ESTIMATES = ("score", "mean")
MEASURED = ("direction", "low", "high")
_FORMULA = ("=", "+", "-", "@")


def as_json(board: Board) -> bytes:
    """`board.plain` on one line; what is not defined is null."""
    text = json.dumps(board, default=vars, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def as_csv(board: Board) -> bytes:
    """One line per row, in the order of the page. Several values of a cell are joined by `; `, what is not defined is
    empty, and text that a spreadsheet would take for a formula begins with an apostrophe."""
    lines = [_line(entry) for entry in board.entries]
    held = io.StringIO()
    writer = csv.DictWriter(held, lines[0] if lines else ["id"])  # RFC 4180's line ends: a lone \r is quoted
    writer.writeheader()
    writer.writerows(lines)
    return held.getvalue().encode()


def _line(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(entry).items():
        if name in ESTIMATES:
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif name == "measure":
            found |= {"measure": value.name, **{f"measure_{end}": getattr(value, end) for end in MEASURED}}
        else:
            found[name] = value
    return {name: _cell(value) for name, value in found.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and formula(value) else value


def formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula: by its first character, as which full-width ones count too
    (Unicode's NFKC form), and before which white space and invisible characters do not."""
    for letter in unicodedata.normalize("NFKC", text):
        if letter in "\t\r\n":
            return True
        if letter.isprintable() and not letter.isspace():
            return letter in _FORMULA
    return False
