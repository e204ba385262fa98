"""Verdicts about a pair of segments: read out of a model's reply, asked for in both orders, and turned into labels."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from guidebench.baselines.conversing import LONGEST, Conversation, Misread
from guidebench.baselines.preference.teaching import Verdict
from guidebench.harness.interfaces import Unusable

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


async def weigh(
    prefer: Callable[[int, int], Awaitable[Conversation[int]]], twice: bool
) -> tuple[Conversation[int], dict[str, Any] | None]:
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


def concluded(found: dict[str, Any] | None) -> dict[str, Any] | Unusable | None:
    """Return the result of `weigh` as a dialogue's answer: unusable if a verdict could not be read or did not come, so
    that the pair has no label."""
    return Unusable(found) if found is not None and found["outcome"] in ("unreadable", "failed") else found


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
