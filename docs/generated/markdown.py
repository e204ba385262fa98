"""Markdown for generated pages: tables, and escaped text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table surrounded by blank lines; "" without rows. Cells are Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    if not lines:
        return ""
    return "\n".join(["", "| " + " | ".join(headings) + " |", "| --- " * len(headings) + "|", *lines, "", ""])


def text(words: str) -> str:
    """Escape plain words as one line of a Markdown cell or paragraph; text in back quotes stays code."""
    line = " ".join(words.split()).replace("|", "\\|")
    pieces = re.split(r"(`[^`]*`)", line)
    return "".join(piece if piece.startswith("`") else _escaped(piece) for piece in pieces)


def _escaped(words: str) -> str:
    """Escape what is markup; a backslash before "<" would be printed."""
    return re.sub(r"([*\[\]])", r"\\\1", words).replace("<", "&lt;")


def code(words: str) -> str:
    """Return words as inline code for a table cell; "" stays ""."""
    line = " ".join(words.split()).replace("|", "\\|")
    return f"`{line}`" if line else ""
