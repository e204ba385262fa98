"""Fields of JSON objects that strangers may have written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from guidebench.harness.errors import UserError

LARGEST = 1e300
"""Largest absolute value of a number; larger ones are brought to it, so that sums of a few stay finite."""
QUOTED = 80
"""Characters of a wrong value that a message shows."""


def field(content: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a field of exactly this type. Raise UserError for another type, and if it is missing."""
    value = content.get(name)
    if type(value) is not kind:
        raise UserError(f"{name} is {repr(value)[:QUOTED]}; expected {kind.__name__}")
    return value


def number(content: Mapping[str, Any], name: str) -> float:
    """Return a finite number, at most LARGEST in absolute value. Raise UserError for anything else."""
    value: Any = content.get(name)
    if type(value) not in (int, float) or not abs(value) < math.inf:
        raise UserError(f"{name} is {repr(value)[:QUOTED]}; expected a finite number")
    return float(min(max(value, -LARGEST), LARGEST))
