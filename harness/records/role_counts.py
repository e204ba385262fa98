"""How many questions of a run were answered in each role, as its ledger keeps it in one column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness.records.schema import ENOUGH_ANSWERED

MOST_ROLES, LONGEST = 100, 100
"""Most roles of a record, and most characters of what is said of one, in a file that may be a stranger's."""
TINY = 1e-9
"""Tolerance for rounding errors of a share."""


def enough(questions: int, failures: int) -> bool:
    """Return whether nine in ten of the questions were answered (`ENOUGH_ANSWERED`); True without any.

    >>> enough(10, 1), enough(9, 1), enough(0, 0)
    (True, False, True)
    """
    return failures <= (1 - ENOUGH_ANSWERED) * questions + TINY


class RoleCount(NamedTuple):
    """Questions of one run in one role."""

    questions: int
    failures: int
    """Questions of these without a usable answer."""
    remark: str = ""
    """What the asking part says of a run with too few answers in this role (`AskingPart.essential`), if it is one."""


def written(counts: Mapping[str, RoleCount]) -> str:
    """Return the counts by role as a text, which `read` returns."""
    return json.dumps({role: [*each] for role, each in counts.items()}, separators=(",", ":"))


def read(text: Any) -> dict[str, RoleCount]:
    """Return the counts by role in a column's value; {} where it is missing. Raise ValueError for any other value."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict) or len(content) > MOST_ROLES:
        raise ValueError("it is no object of roles")
    return {str(role): _read(each) for role, each in content.items()}


def _read(given: Any) -> RoleCount:
    match given:
        case [int(questions), int(failures), str(remark)] if 0 <= failures <= questions < 2**53:
            if len(remark) <= LONGEST and remark.isprintable():
                return RoleCount(int(questions), int(failures), remark)
    raise ValueError(f"{str(given)[:80]} is no count of a role: expected two whole numbers and a text")
