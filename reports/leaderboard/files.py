"""Writers of a board for programs: JSON with everything, CSV with one line per row."""

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
    """Return the board as one line of JSON; undefined values are null."""
    text = json.dumps(board, default=vars, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def as_csv(board: Board) -> bytes:
    """Return the board as CSV with one line per row, in the page's order. Several values of a field are joined by `; `,
    undefined values are empty, and text that a spreadsheet would read as a formula begins with an apostrophe."""
    lines = [_line(row) for row in board.entries]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, lines[0] if lines else ["id"])  # RFC 4180's line ends: a lone \r is quoted
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue().encode()


def _line(row: Entry) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in vars(row).items():
        if name in ESTIMATES:
            columns |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif name == "measure":
            columns |= {"measure": value.name, **{f"measure_{end}": getattr(value, end) for end in MEASURED}}
        else:
            columns[name] = value
    return {name: _cell(value) for name, value in columns.items()}


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and formula(value) else value


def formula(text: str) -> bool:
    """Return whether a spreadsheet may read a text as a formula. The first character decides, after leading white space
    and invisible characters; full-width characters count too (Unicode's NFKC form)."""
    for letter in unicodedata.normalize("NFKC", text):
        if letter in "\t\r\n":
            return True
        if letter.isprintable() and not letter.isspace():
            return letter in _FORMULA
    return False
