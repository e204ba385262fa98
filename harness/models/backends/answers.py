"""What models write, read as data: the first JSON object of a text, and whether it says yes or no.

Text of a model is parsed and checked, never evaluated. What cannot be read is told to the model, a bounded number of
times, and is then a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from guidebench.harness.models.calls import Failure, Json, Message
from guidebench.harness.texts import JSON, each_text, mended

BEGUN = "Answer:"
"""With what a prefilled answer begins, as the prompts ask (VLM-RB, app. C)."""
SPOKEN = 8
"""Tokens that are generated where the answer is not begun: "Answer: Yes" and some to spare (choice)."""
REPAIRS = 2
"""How often a model is shown what is wrong with its answer (choice)."""
LONGEST = 1_000_000
"""Characters of an answer that are looked at; no answer that was asked for is longer (choice)."""

ANSWER = re.compile(r"\banswer\s*:", re.IGNORECASE)
WORD = re.compile(r"[\W_]*(yes|no)\b", re.IGNORECASE)
ALONE = re.compile(r"[\W_]*(yes|no)\s*(?:[^\w\s]|\n|$)", re.IGNORECASE)
"""Yes or no at a text's beginning, with punctuation, a new line or nothing behind it."""


class Unreadable(ValueError):
    """An answer that is not what was asked for; its message is meant for the model."""


def in_schema(text: str, schema: Mapping[str, Json]) -> Json:
    """The first JSON object in a text, whatever stands around it; Unreadable if there is none or it does not fit.

    A `$ref` of the schema leads to its own parts alone: nothing is fetched, and no file is opened.
    """
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    found = _first_object(text)
    validator = jsonschema.validators.validator_for(schema)(schema, registry=Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(found))
    except Unresolvable as problem:
        raise Unreadable(f"the schema cannot be used: {problem}") from None
    if error is not None:
        at = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise Unreadable(f"the object does not fit the schema{f' at {at}' if at else ''}: {error.message[:300]}")
    return found


def with_schema(messages: tuple[Message, ...], schema: Mapping[str, Json]) -> tuple[Message, ...]:
    """The chat with its last message asking for an object that fits the schema."""
    *before, last = messages
    asking = (
        "\n\nReply with a single JSON object and no other text. The object has to be valid under this JSON schema:\n"
        + json.dumps(schema, ensure_ascii=False)
    )
    return (*before, Message(last.role, (*last.content, asking)))


def with_repair(messages: tuple[Message, ...], text: str, error: Unreadable) -> tuple[Message, ...]:
    """The chat continued by the answer that cannot be read and by what is wrong with it."""
    asking = f"This reply cannot be used: {error}. Reply again, with the corrected JSON object and no other text."
    return (*messages, Message("assistant", (text[:4_000],)), Message("user", (asking,)))


def yes_or_no(text: str) -> float:
    """1.0 for yes, 0.0 for no: the word that follows the last "Answer:", or else the word that the text begins with, if
    it stands by itself. Prose that holds either word somewhere is no answer.

    Failure: `empty` for no text, `malformed` where it says neither.

    >>> yes_or_no("There is no key left. Answer: Yes")
    1.0
    """
    text = text[:LONGEST]
    if not text.strip():
        raise Failure("empty", "the model answered nothing")
    begun = _begun(text)
    said = ALONE.match(text) if begun is None else WORD.match(text, begun)
    if said is None:
        raise Failure("malformed", f"expected yes or no, got {text[:80]!r}")
    return float(said.group(1).lower() == "yes")


def answering(texts: Sequence[str], words: Sequence[bool]) -> int:
    """The index of the token that answers yes or no, as `yes_or_no` reads the whole answer; Failure as it raises.

    `texts`: the answer up to and including each of its tokens; `words`: whether that token by itself reads yes or no.
    """
    said = texts[-1] if texts else ""
    yes_or_no(said)
    begun = _begun(said) or 0
    for index, (text, word) in enumerate(zip(texts, words, strict=True)):
        if word and len(text) > begun:
            return index
    raise Failure("malformed", f"no single token says yes or no in {said[:80]!r}")


def _begun(text: str) -> int | None:
    """The index behind the last "Answer:" of a text; None where it holds none."""
    ends = [found.end() for found in ANSWER.finditer(text)]
    return ends[-1] if ends else None


def _first_object(text: str) -> dict[str, Json]:
    text = text[:LONGEST]
    error = "it holds no JSON object"
    for begin in _braces(text):
        try:
            found = each_text(JSON.raw_decode(text, begin)[0], mended)
        except (ValueError, RecursionError) as problem:
            error = f"its JSON cannot be parsed: {problem}"
            continue
        return dict(found)
    raise Unreadable(error)


def _braces(text: str) -> list[int]:
    """Where an object may begin; a bounded number of places, since a parser tries each."""
    return [match.start() for match, _ in zip(re.finditer(r"\{", text), range(64), strict=False)]
