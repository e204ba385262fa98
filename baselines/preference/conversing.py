"""Conversations with a model about a pair: filling in prompts, reading replies, and turning them into verdicts.

Text of a model is parsed and checked, never evaluated. If a reply cannot be read, the model is told why and asked
again, a bounded number of times. A call without any answer is not repeated here, since the caller below has already
retried it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from guidebench.baselines.preference.teaching import Verdict
from guidebench.harness.models.calls import Call, CallResult, ChatCall, Message

AskModel = Callable[[Call], Awaitable[CallResult]]
Read = TypeVar("Read")
LONGEST = 100_000
"""Maximum number of characters of a reply that are parsed; 1000 tokens need a twentieth of this (choice)."""
ECHOED = 8_000
"""Characters of the model's earlier reply that later messages repeat; 1000 tokens need half of this (choice)."""
BLANK = re.compile(r"\{([A-Za-z_][A-Za-z_0-9]*)\}")
ENUMERATED = re.compile(r"^[\s>*#_]*[0-9]+[.)](?=\s+\S)", re.ASCII)
"""Pattern of a list item's number, which is no verdict: `2. Which one is better?`"""
INTEGER = re.compile(r"(?<![\w.])[-+]?[0-9]+(?![0-9A-Za-z_]|\.[0-9])", re.ASCII)
STATED = re.compile(
    r"\b(?:answer|verdict|choice|label|preference|result|conclusion|therefore|so)(?:\s+is)?[^\w+.-]*$", re.IGNORECASE
)
"""Text before an integer that marks it as a verdict: `The answer is 0`, `so: 2`."""
NAMED = re.compile(r"(?:^|\b(?:trajectory|segment|image|option))[\s>*#_\"'(-]*$", re.IGNORECASE)
"""Text before an integer that names one of the two: nothing, or `Trajectory`."""
PREFERRED = re.compile(r"\b(?:better|best|more|preferred|prefer|furthers|wins|choose|pick)\b", re.IGNORECASE)
DENIED = re.compile(r"\b(?:not|no|neither|nor|cannot)\b|n['’]t\b", re.IGNORECASE)


def misfit(prompt: str, needs: Sequence[str], may: Sequence[str]) -> str:
    """Return why a text cannot serve as a prompt with these placeholders, or ""."""
    present = set(BLANK.findall(prompt))
    known = ", ".join(f"{{{name}}}" for name in (*needs, *may))
    if missing := [name for name in needs if name not in present]:
        return f"lacks {', '.join(f'{{{name}}}' for name in missing)} (placeholders: {known})"
    if unknown := sorted(present.difference(needs, may)):
        return f"holds {', '.join(f'{{{name}}}' for name in unknown)}, which nothing fills in (placeholders: {known})"
    return ""


def filled(prompt: str, values: Mapping[str, object]) -> str:
    """Return the prompt with its placeholders replaced in one pass; inserted text is not searched for placeholders."""
    return BLANK.sub(lambda match: str(values.get(match[1], match[0])), prompt)


class Misread(ValueError):
    """A reply in the wrong format; `fault` is counted, the message is for the model."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def verdict(answer: str) -> int:
    """Return the integer that an answer ends with: 0, 1 or 2 (RL-SaLLM-F, app. C.1; its released code takes the last of
    all integers).

    Raise Misread if there is none, if its line holds another number too, for any other number, and if the line is prose
    without a preference ("Both fail at step 1").

    >>> verdict("1. Both stay away.\\n2. Which is better?\\n**2**")
    2
    """
    for line in reversed(answer[:LONGEST].splitlines()):
        said = set(INTEGER.findall(ENUMERATED.sub("", line, count=1)))
        if len(said) > 1:
            raise Misread("unreadable", f"its last number is not the only one in its line: {line.strip()[:80]!r}")
        if said:
            (number,) = said
            if number not in ("0", "1", "2"):
                raise Misread("unreadable", f"it ends with {number[:20]}, which is none of 0, 1 and 2")
            if not _stated(line, number):
                raise Misread("unreadable", f"its last number is part of a sentence: {line.strip()[:80]!r}")
            return int(number)
    raise Misread("unreadable", "it holds no 0, 1 or 2")


def _stated(line: str, number: str) -> bool:
    """Return whether a line gives its integer as a verdict: alone, after a word such as "answer", or as the name of the
    one that it calls better."""
    line = ENUMERATED.sub("", line, count=1)
    if not re.sub(r"[\W_]", "", line.replace(number, "", 1)):
        return True
    before = line[: line.rindex(number)]
    if STATED.search(before):
        return True
    named = NAMED.search(before) is not None
    rest = re.sub(r"[\W_]", "", NAMED.sub("", before, count=1) + line[line.rindex(number) + len(number) :])
    return named and (not rest or (PREFERRED.search(line) is not None and DENIED.search(line) is None))


class Said(NamedTuple, Generic[Read]):
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
) -> Said[Read]:
    """Ask until the reply can be read, the retries are used up or a call fails."""
    fault = "failed"
    for retry in range(1 + retries):
        told = await ask(ChatCall(messages))
        if told.failure:
            return Said(None, fault, messages, retry)
        messages = (*messages, Message("assistant", (str(told.value)[:ECHOED],)))
        try:
            if told.detail.get("cut_off"):
                raise Misread("unreadable", "it was cut off before its end")
            return Said(read(str(told.value)), "", messages, retry)
        except Misread as misread:
            fault = misread.fault
            if retry < retries:
                messages = (*messages, Message("user", (reminder(misread),)))
    return Said(None, fault, messages, retries)


async def weigh(
    prefer: Callable[[int, int], Awaitable[Said[int]]], twice: bool
) -> tuple[Said[int], dict[str, Any] | None]:
    """Ask which of a pair is better: `prefer(0, 1)`, and if `twice` and there is a preference, also `prefer(1, 0)`,
    which has to agree (RL-SaLLM-F, equations 3 and 4).

    Return the first conversation and a mapping of the `first` and `second` answer, `outcome` and `retries`; None
    instead of the mapping if the first call got no answer.
    """
    first = await prefer(0, 1)
    if first.fault == "failed":
        return first, None
    found: dict[str, Any] = {"first": first.value, "second": None, "retries": first.retries}
    if not first.value:
        return first, found | {"outcome": first.fault or "equal"}
    if twice:
        second = await prefer(1, 0)
        found |= {"second": second.value, "retries": first.retries + second.retries}
        if second.value != 3 - first.value:
            return first, found | {"outcome": second.fault or "inconsistent"}
    return first, found | {"outcome": "labelled"}


def weighed(value: Any, twice: bool) -> Verdict:
    """Return the verdict for a result of `weigh`: the label is the index of the preferred segment; without a preference
    the pair is not kept. KeyError, TypeError or ValueError for a value that `weigh` cannot return."""
    first, second, outcome = _answer(value["first"]), _answer(value["second"]), value["outcome"]
    notes: dict[str, Any] = {"retries": _count(value["retries"])}
    notes |= {name: number for name, number in (("first", first), ("second", second)) if number is not None}
    if outcome in ("unreadable", "failed"):
        return Verdict(outcome, notes=notes)
    if outcome == "equal" or outcome == "inconsistent":
        expect(first is not None and (first == 0) == (outcome == "equal"))
        return Verdict(outcome, notes=notes)
    expect(outcome == "labelled")
    if first is None or first == 0 or second != (3 - first if twice else None):
        raise ValueError("no preference that holds")
    return Verdict("labelled", float(first - 1), True, notes=notes)


def expect(holds: bool) -> None:
    """Raise ValueError for a value that no dialogue returns."""
    if not holds:
        raise ValueError("no dialogue ends so")


def _answer(value: Any) -> int | None:
    expect(value is None or (type(value) is int and value in (0, 1, 2)))
    return None if value is None else int(value)


def _count(value: Any) -> int:
    expect(type(value) is int and 0 <= value < 1_000)
    return int(value)
