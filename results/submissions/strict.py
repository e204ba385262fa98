"""Strict parsing of untrusted JSON: unambiguous, limited in size and depth, and without terminal control characters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from guidebench.harness.errors import UserError

DEEPEST = 16


def parsed(content: bytes, subject: str, longest: int) -> Any:
    """Parse a JSON text in UTF-8; raise UserError, naming `subject`, for anything that parsers treat differently
    (repeated names, NaN, infinities) or that is too large or deep."""
    if len(content) > longest:
        raise UserError(f"{subject} has {len(content):,} bytes; at most {longest:,} are read")
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_never)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{subject} is not plain JSON ({printable(str(error) or 'too deep')})") from None
    _look(value, subject)
    return value


def fits(value: Any, schema: Mapping[str, Any], subject: str) -> None:
    """Raise UserError naming the first part of a value that a JSON schema does not allow."""
    import jsonschema

    error = next(jsonschema.Draft202012Validator(schema).iter_errors(value), None)
    if error is not None:
        place = "".join(f", {printable(str(step))}" for step in error.absolute_path)
        raise UserError(f"{subject}{place} does not fit the schema: {printable(error.message)}")


def printable(text: str, longest: int = 200) -> str:
    """Return an untrusted text, shortened and without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a name is there twice in one object")
    return mapping


def _never(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON's")


def _look(value: Any, subject: str, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise UserError(f"{subject} is nested more than {DEEPEST} deep")
    if isinstance(value, str):
        if not value.replace("\n", "").replace("\t", "").isprintable():
            raise UserError(f"{subject} holds control characters, in {printable(value)!r}")
    elif isinstance(value, float):
        if value in (float("inf"), float("-inf")):  # 1e999
            raise UserError(f"{subject} holds a number that is not finite")
    elif isinstance(value, dict):
        for name, element in value.items():
            _look(name, subject, depth)
            _look(element, subject, depth + 1)
    elif isinstance(value, list):
        for element in value:
            _look(element, subject, depth + 1)
