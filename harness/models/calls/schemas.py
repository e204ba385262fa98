"""JSON schemas that a chat call may carry, restricted to keywords that one pass over the answer can check.

A schema is stored with the recorded call, so schemas from imported, untrusted cassettes are applied too. References can
double at every level, a pattern can take forever and `uniqueItems` compares all pairs of items. With these keywords
alone, a check takes at most the size of the schema times that of the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
LARGEST = 2**16
"""Most characters of a schema as JSON."""
DEEPEST = 16
"""Deepest nesting of schemas."""


def check(schema: Any) -> None:
    """Raise ValueError naming the first keyword of a schema that is not allowed or has an invalid value."""
    _check(schema, 0)
    if len(json.dumps(schema, default=dict)) > LARGEST:
        raise ValueError(f"the schema has more than {LARGEST:,} characters")


def _check(schema: Any, depth: int) -> None:
    if not isinstance(schema, Mapping):
        raise ValueError(f"{repr(schema)[:80]} is no schema: expected an object")
    if depth > DEEPEST:
        raise ValueError(f"its schemas are nested more than {DEEPEST} deep")
    for keyword, value in schema.items():
        if keyword not in KEYWORDS:
            raise ValueError(f"its keyword {str(keyword)[:40]!r} is not allowed; expected {', '.join(KEYWORDS)}")
        if not KEYWORDS[keyword](value, depth + 1):
            raise ValueError(f"its keyword {keyword!r} has the value {repr(value)[:80]}")


def _text(value: Any, _: int) -> bool:
    return isinstance(value, str)


def _types(value: Any, _: int) -> bool:
    several = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    return set(value if several else [value] if isinstance(value, str) else [""]) <= set(TYPES)


def _properties(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping):
        for schema in value.values():
            _check(schema, depth)
    return isinstance(value, Mapping)


def _names(value: Any, _: int) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(name, str) for name in value)


def _further(value: Any, depth: int) -> bool:
    return isinstance(value, bool) or _schema(value, depth)


def _schema(value: Any, depth: int) -> bool:
    _check(value, depth)
    return True


def _schemas(value: Any, depth: int) -> bool:
    return isinstance(value, list) and bool(value) and all(_schema(schema, depth) for schema in value)


def _values(value: Any, _: int) -> bool:
    return isinstance(value, list) and all(_plain(constant, 0) for constant in value)


def _plain(value: Any, _: int) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def _count(value: Any, _: int) -> bool:
    return type(value) is int and value >= 0


def _number(value: Any, _: int) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


KEYWORDS: Mapping[str, Callable[[Any, int], bool]] = {
    "type": _types, "properties": _properties, "required": _names, "additionalProperties": _further, "items": _schema,
    "prefixItems": _schemas, "enum": _values, "const": _plain, "anyOf": _schemas,
    "minimum": _number, "maximum": _number,
    "exclusiveMinimum": _number, "exclusiveMaximum": _number, "minItems": _count, "maxItems": _count,
    "minLength": _count, "maxLength": _count, "title": _text, "description": _text,
}  # fmt: skip
"""Keyword -> check of its value at a depth: returns whether it is valid, raises ValueError for an invalid subschema."""
