"""Parsing of model output: the first JSON object in a text, and yes or no.

A model's text is parsed and checked, never evaluated. If it cannot be parsed, the model is shown the error a bounded
number of times; after that the call fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from guidebench.harness.models.calls import ChoiceCall, Failure, Json, JudgeCall, Message
from guidebench.harness.models.choice_scores import mass, shares, turns
from guidebench.harness.texts import JSON, each_text, mended
from guidebench.harness.types import Array

BEGUN = "Answer:"
"""Beginning of a prefilled answer, which the prompts ask for (VLM-RB, app. C)."""
YES_OR_NO = (" Yes", " No")
"""Candidates after `BEGUN` where a judgement is a choice."""
SPOKEN = 8
"""Tokens to generate without a prefilled answer: enough for "Answer: Yes" with a margin (choice)."""
REPAIRS = 2
"""Times that a model is shown what is wrong with its answer (choice)."""
OUR_WORDS = 1_000
"""Bytes reserved for our text around a schema and for error descriptions, with a margin."""
LONGEST = 1_000_000
"""Characters of an answer that are parsed; no valid answer is longer (choice)."""

ANSWER = re.compile(r"\banswer\s*:", re.IGNORECASE)
WORD = re.compile(r"[\W_]*(yes|no)\b", re.IGNORECASE)
ALONE = re.compile(r"[\W_]*(yes|no)\s*(?:[^\w\s]|\n|$)", re.IGNORECASE)
"""Yes or no at the start of a text, followed by punctuation, a new line or nothing."""


def repaired(times: int) -> dict[str, float | str]:
    """Return the detail of a reply that was readable after so many repairs; {} without any."""
    return {"repairs": float(times)} if times else {}


class Unreadable(ValueError):
    """An answer in the wrong form; its message is shown to the model."""


def in_schema(text: str, schema: Mapping[str, Json]) -> Json:
    """Return the first JSON object in a text, ignoring text around it; raise Unreadable if there is none or it does not
    fit.

    A `$ref` of the schema can refer only to the schema itself: nothing is fetched, and no file is opened.
    """
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    json_object = _first_object(text)
    validator = jsonschema.validators.validator_for(schema)(schema, registry=Registry())
    try:
        error = jsonschema.exceptions.best_match(validator.iter_errors(json_object))
    except Unresolvable as problem:
        raise Unreadable(f"the schema cannot be used: {problem}") from None
    if error is not None:
        at = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise Unreadable(f"the object does not fit the schema{f' at {at}' if at else ''}: {error.message[:300]}")
    return json_object


def with_schema(messages: tuple[Message, ...], schema: Mapping[str, Json]) -> tuple[Message, ...]:
    """Return the chat with a request for an object that fits the schema added to its last message."""
    *before, last = messages
    request = (
        "\n\nReply with a single JSON object and no other text. The object has to be valid under this JSON schema:\n"
        + json.dumps(schema, ensure_ascii=False)
    )
    return (*before, Message(last.role, (*last.content, request)))


def with_repair(messages: tuple[Message, ...], text: str, error: Unreadable) -> tuple[Message, ...]:
    """Return the chat extended by the unreadable answer and a description of its error."""
    request = f"This reply cannot be used: {error}. Reply again, with the corrected JSON object and no other text."
    return (*messages, Message("assistant", (text[:4_000],)), Message("user", (request,)))


def yes_or_no(text: str) -> float:
    """Return 1.0 for yes and 0.0 for no, from the word after the last "Answer:", or else from the text's first word if
    it stands alone. Prose that contains either word elsewhere is not an answer.

    Raises Failure: `empty` for no text, `malformed` for neither word.

    >>> yes_or_no("There is no key left. Answer: Yes")
    1.0
    """
    text = text[:LONGEST]
    if not text.strip():
        raise Failure("empty", "the model answered nothing")
    answer_start = _answer_start(text)
    match = ALONE.match(text) if answer_start is None else WORD.match(text, answer_start)
    if match is None:
        raise Failure("malformed", f"expected yes or no, got {text[:80]!r}")
    return float(match.group(1).lower() == "yes")


def choice_of(call: JudgeCall) -> ChoiceCall:
    """Return the choice between yes and no by which a clip is judged: the prompt, then the frames."""
    return ChoiceCall((Message("user", (call.prompt, *call.clip)),), BEGUN, YES_OR_NO)


def yes_share(answer: Array) -> tuple[float, float]:
    """Return P(yes) in [0, 1] from the answer to `choice_of`, the share of yes in the probability of the two turns, and
    their mass."""
    return float(shares(turns(answer))[0]), min(1.0, mass(answer))


def answer_index(texts: Sequence[str], words: Sequence[bool]) -> int:
    """Return the index of the token that answers yes or no, according to `yes_or_no` on the whole answer; raise its
    Failures.

    `texts`: the answer up to and including each of its tokens; `words`: whether that token alone is yes or no.
    """
    full_text = texts[-1] if texts else ""
    yes_or_no(full_text)
    answer_start = _answer_start(full_text) or 0
    for index, (text, word) in enumerate(zip(texts, words, strict=True)):
        if word and len(text) > answer_start:
            return index
    raise Failure("malformed", f"no single token says yes or no in {full_text[:80]!r}")


def _answer_start(text: str) -> int | None:
    """Return the index after the last "Answer:" of a text, or None if there is none."""
    ends = [match.end() for match in ANSWER.finditer(text)]
    return ends[-1] if ends else None


def _first_object(text: str) -> dict[str, Json]:
    text = text[:LONGEST]
    error = "it holds no JSON object"
    for begin in _braces(text):
        try:
            json_object = each_text(JSON.raw_decode(text, begin)[0], mended)
        except (ValueError, RecursionError) as problem:
            error = f"its JSON cannot be parsed: {problem}"
            continue
        return dict(json_object)
    raise Unreadable(error)


def _braces(text: str) -> list[int]:
    """Return the positions of the first 64 opening braces; the limit bounds the number of parse attempts."""
    return [match.start() for match, _ in zip(re.finditer(r"\{", text), range(64), strict=False)]
