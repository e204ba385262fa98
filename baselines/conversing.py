"""Conversations with a model: filling in prompts, asking again until a reply can be read, and the chance of
hand-written models.

Text of a model is parsed and checked, never evaluated. If a reply cannot be read, the model is told why and asked
again, a bounded number of times. A call without any answer is not repeated here, since the caller below has already
retried it.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

from guidebench.harness.models.calls import AskModel, ChatCall, Message
from guidebench.harness.texts import JSON, each_text, mended

Read = TypeVar("Read")
LONGEST = 100_000
"""Maximum number of characters of a reply that are parsed; 1000 tokens need a twentieth of this (choice)."""
ECHOED = 8_000
"""Characters of the model's earlier reply that later messages repeat; 1000 tokens need half of this (choice)."""
MOST_BRACES = 64
"""Opening braces of a reply at which an object is looked for, which bounds the work (choice)."""
FAULT = 1_000
"""Most bytes of a message about an unreadable reply: eighty of its characters, each of which takes up to ten bytes as
Python writes it, and our own words."""
INSTRUCTION = 500
"""Most bytes of an instruction where episodes differ in it, by which costs are bounded (choice: several times those of
the suites)."""
NOTHING = "N/A"
"""What stands for the state in a question without content (Zhao et al. 2021), by which choices are calibrated."""
BLANK = re.compile(r"\{([A-Za-z_][A-Za-z_0-9]*)\}")


def misfit(prompt: str, needs: Sequence[str], may: Sequence[str]) -> str:
    """Return why a text cannot serve as a prompt with these placeholders, or ""."""
    present = set(BLANK.findall(prompt))
    placeholders = ", ".join(f"{{{name}}}" for name in (*needs, *may))
    if missing := [name for name in needs if name not in present]:
        return f"lacks {', '.join(f'{{{name}}}' for name in missing)} (placeholders: {placeholders})"
    if unknown := sorted(present.difference(needs, may)):
        names = ", ".join(f"{{{name}}}" for name in unknown)
        return f"holds {names}, which nothing fills in (placeholders: {placeholders})"
    return ""


def filled(prompt: str, blanks: Mapping[str, object]) -> str:
    """Return the prompt with its placeholders replaced in one pass; inserted text is not searched for placeholders."""
    return BLANK.sub(lambda match: str(blanks.get(match[1], match[0])), prompt)


def size(*contents: Any) -> int:
    """Return the bytes of the texts in messages' contents, images left out."""
    return sum(len(part.encode()) for message_parts in contents for part in message_parts if isinstance(part, str))


def longest_instruction(suite: Any, task: str) -> str:
    """Return the task's instruction, or a text of `INSTRUCTION` bytes where episodes differ in it. Makes the task once
    for each configuration of the suite."""
    return "x" * INSTRUCTION if task in suite.by_turns else _instruction(suite, task)


@functools.lru_cache(64)
def _instruction(suite: Any, task: str) -> str:
    return str(suite.make(task).instruction)


class Misread(ValueError):
    """A reply in the wrong format; `fault` is counted, the message is for the model."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def objects(reply: str) -> Iterator[tuple[int, int, dict[str, Any] | Exception]]:
    """Yield begin, end and content of the JSON object at each of the first `MOST_BRACES` opening braces of a reply,
    objects within another one included. Where none can be parsed, the content is the error, and the end is the begin.
    """
    for brace, _ in zip(re.finditer(r"\{", reply), range(MOST_BRACES), strict=False):
        begin = brace.start()
        try:
            decoded, end = JSON.raw_decode(reply, begin)
            yield begin, end, dict(each_text(decoded, mended))
        except (ValueError, RecursionError) as error:
            yield begin, begin, error


def first_object(reply: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the first JSON object in a reply that has one of the names, or else the first object; text around it is
    ignored. Raise Misread if the reply holds no object, or if JSON before it cannot be parsed."""
    others, fault = [], "it holds no JSON object"
    for _, _, json_object in objects(reply[:LONGEST]):
        if isinstance(json_object, Exception):
            fault = f"its JSON cannot be parsed: {json_object}" if fault.startswith("it holds") else fault
        elif any(name in json_object for name in names):
            return json_object
        else:
            others.append(json_object)
    if others and fault.startswith("it holds"):
        return others[0]
    raise Misread("unreadable", fault)


def check_schema(json_object: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise Misread for an object that does not fit a JSON schema; the message names what is wrong with which field."""
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(json_object))
    if error is None:
        return
    field = ".".join(map(str, error.absolute_path)) or "the object"
    unit = {"maxItems": "items", "maxLength": "characters"}.get(str(error.validator))
    wrong = (
        f"has more than {error.validator_value} {unit}" if unit else f"does not fit the schema: {error.message:.200}"
    )
    raise Misread("unreadable", f"{field} {wrong}")


def unlike(answer: Any, form: Mapping[str, Any]) -> str:
    """Return why a JSON value does not have a form, or "": a JSON schema without its keyword `required`, since all
    `properties` of an object are. For `ChecksAnswers.misfit`, whose answers may be a stranger's."""
    import jsonschema

    schema = {**form, "required": [*form.get("properties", ())]}
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(answer))
    return "" if error is None else f"it does not fit the form of an answer: {error.message:.200}"


class ObjectDialogue:
    """Base of a dialogue that parses JSON objects, which a model may also write under their schemas
    (`harness.interfaces.questions.WritesObjects`)."""

    by_schema = False
    """Whether its calls carry the schemas of the objects."""

    def with_schemas(self) -> Self:
        """Return the dialogue whose calls carry the schemas."""
        dialogue = copy.copy(self)
        dialogue.by_schema = True
        return dialogue


class Conversation(NamedTuple, Generic[Read]):
    """The result of a conversation."""

    value: Read | None
    fault: str
    """Fault of the last reply: that of a Misread, `failed` if there was no reply, or "" for a value."""
    messages: tuple[Message, ...]
    """All messages, including the reply."""
    retries: int


async def converse(
    ask: AskModel,
    messages: tuple[Message, ...],
    read: Callable[[str], Read],
    reminder: Callable[[Misread], str],
    retries: int,
    aim: str = "",
    schema: Mapping[str, Any] | None = None,
) -> Conversation[Read]:
    """Ask until the reply can be read, the retries are used up or a call fails. `aim`: what the dialogue wants to know,
    if it has several such conversations (`Call.purpose`); `schema`: that of the object to write, None for a reply in
    text."""
    fault = "failed"
    for retry in range(1 + retries):
        reply = await ask(ChatCall(messages, schema, aim=aim, repeats=retry > 0))
        if reply.failure:
            return Conversation(None, fault, messages, retry)
        text = reply.value if isinstance(reply.value, str) else json.dumps(reply.value, ensure_ascii=False)
        messages = (*messages, Message("assistant", (text[:ECHOED],)))
        try:
            if reply.detail.get("cut_off"):
                raise Misread("unreadable", "it was cut off before its end")
            return Conversation(read(text), "", messages, retry)
        except Misread as misread:
            fault = misread.fault
            if retry < retries:
                messages = (*messages, Message("user", (reminder(misread),)))
    return Conversation(None, fault, messages, retries)


def chance(*texts: str) -> float:
    """Return a number in [0, 1) computed from the texts, uniform and independent for different texts: the random draw
    of a hand-written model, whose answers depend on its input alone."""
    hashed = hashlib.blake2b("\0".join(texts).encode(errors="surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big") / 2**64
