"""Texts that come from outside, from models, servers and records: made safe to keep and to print."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

DEEPEST = 100
"""Levels of lists and objects in a JSON value; what is nested deeper exhausts the stack of whoever walks through it."""
REPLACEMENT = "\ufffd"
"""Unicode's own mark for a character that could not be kept."""
SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of a character, which JSON can name alone and UTF-8 cannot hold."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, which a terminal obeys, but for tabs and new lines; marks that turn the direction of a text; and
halves of a character."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def _none(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


JSON = json.JSONDecoder(parse_float=_finite, parse_int=_whole, parse_constant=_none)
"""Reads JSON whose numbers are all finite as floats too, so that they can be computed with and written again;
ValueError for others (1e999, NaN, a whole number of 400 digits)."""


def mended(text: str) -> str:
    """The text with each half of a character replaced, so that it can be written as UTF-8."""
    return SURROGATES.sub(REPLACEMENT, text)


def printable(text: str) -> str:
    """The text with each character that a terminal would obey or cannot show written as an escape; lines stay lines."""
    return UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(text: Any) -> str:
    """As `printable`, in one line: tabs and new lines are written as escapes too."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))


def each_text(value: Any, change: Callable[[str], str], deepest: int = DEEPEST) -> Any:
    """A JSON value with every string in it changed, names of fields included; ValueError if it is nested too deeply."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, (dict, list)):
        return value
    if not deepest:
        raise ValueError(f"lists and objects are nested more than {DEEPEST} levels deep")
    if isinstance(value, dict):
        return {change(name): each_text(content, change, deepest - 1) for name, content in value.items()}
    return [each_text(content, change, deepest - 1) for content in value]
