"""The contents of a self-contained page: scripts that its policy allows by hash, and data that stay data.

A page may contain strangers' text. Only the scripts of `templates/` run on it, and their text never depends on data.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
DIGITS = 4
"""Decimals of a number of at least 1, else significant digits: more than any page shows."""


def script(*names: str) -> Markup:
    """Join these files of `templates/` to the text of one script element. Raise ValueError for text that would end the
    element."""
    from markupsafe import Markup

    text = "\n".join(['"use strict";', *((TEMPLATES / name).read_text(encoding="utf-8") for name in names)])
    if "</script" in text or "<!--" in text:
        raise ValueError(f"{', '.join(names)}: what ends a script element must not stand in a script")
    return Markup(text)


def policy(*scripts: str, connects: bool = False) -> str:
    """Return a content security policy that allows nothing from elsewhere and only scripts with exactly these texts.
    `connects`: whether they may ask the server that the page came from."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes or repr('none')}; img-src data:; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if connects else "")
    )


def plain(value: Any) -> Any:
    """Convert dataclasses, arrays and mappings to JSON data; numbers are rounded, and non-finite ones are None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else significant(number)


def significant(number: float) -> float:
    """Round a number of at least 1 to `DIGITS` decimals, others to `DIGITS` significant digits."""
    return round(number, DIGITS) if abs(number) >= 1 else float(f"{number:.{DIGITS}g}")


def inert(value: Any) -> Markup:
    """Return a value as JSON for a `<script type="application/json">`, escaped so that no text in it ends the element
    or a line of JavaScript."""
    from markupsafe import Markup

    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text.encode("utf-8", "replace").decode("utf-8"))


def packed(text: str) -> str:
    """Return text as base64 of gzip, which `unpacked` of elements.js reads; the same text gives the same bytes."""
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), compresslevel=9, mtime=0)).decode("ascii")


def packed_json(value: Any) -> str:
    """Return a value as JSON in base64 of gzip, which `unpacked` of elements.js reads."""
    return packed(json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")))
