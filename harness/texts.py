"""Texts for people: sanitising of untrusted ones from models, servers and records, so that they can be stored and
printed, and durations in words."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from typing import Any

DEEPEST = 100
"""Maximum nesting of lists and objects in a JSON value; deeper nesting could exhaust the stack of recursive code."""
LONGEST = 4_000
"""Most characters that `brief` shows, where no other number is given."""
REPLACEMENT = "\ufffd"
"""Unicode's replacement character."""
SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which JSON can encode and UTF-8 cannot."""
CONTROLS = ("Cc", "Zl", "Zp")
"""Unicode's categories of control characters, and of separators of lines and paragraphs."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters to escape: control characters except tab and newline, bidirectional marks, and lone surrogates."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _none(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


JSON = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_none)
"""Decodes JSON whose numbers are all finite as floats, so that they can be computed with and written again. Raises
ValueError for others (1e999, NaN, an integer of 400 digits)."""


def mended(text: str) -> str:
    """Return the text with each lone surrogate replaced, so that it can be encoded as UTF-8."""
    return SURROGATES.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """Return the text with each control or unprintable character escaped; tabs and newlines are kept."""
    return UNPRINTABLE.sub(lambda match: repr(match[0])[1:-1], text)


def control_characters(text: str) -> str:
    """Return the control characters and line separators of a text, each once, escaped and joined by ", ".

    >>> control_characters("a\\nb\\tc\\n")
    '\\\\n, \\\\t'
    """
    letters = dict.fromkeys(letter for letter in text if unicodedata.category(letter) in CONTROLS)
    return ", ".join(repr(letter)[1:-1] for letter in letters)


def one_line(text: Any) -> str:
    """Return the text on one line: as `printable`, with tabs and newlines escaped too."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))


def brief(text: str, most: int = LONGEST) -> str:
    """Return a text for display: characters that control a terminal or the direction of writing are made visible, and
    characters beyond `most` are counted instead."""
    visible = "".join(_visible(letter) for letter in text[:most])
    return visible if len(text) <= most else f"{visible} … ({len(text) - most:,} characters left out)"


def _visible(letter: str) -> str:
    if letter.isprintable() or letter in "\n\t":
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{{{code:x}}}"


def each_text(value: Any, change: Callable[[str], str], deepest: int = DEEPEST) -> Any:
    """Return a JSON value with `change` applied to every string, field names included. Raise ValueError if it is nested
    too deeply."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, (dict, list)):
        return value
    if not deepest:
        raise ValueError(f"lists and objects are nested more than {DEEPEST} levels deep")
    if isinstance(value, dict):
        return {change(name): each_text(content, change, deepest - 1) for name, content in value.items()}
    return [each_text(content, change, deepest - 1) for content in value]


def duration(seconds: float) -> str:
    """Format seconds in at most two units.

    >>> duration(42.3), duration(700), duration(12_000), duration(200_000)
    ('42 s', '12 min', '3 h 20 min', '2 d 8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
