"""Counts of a run's questions and failures by role, stored as text in one column of the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness.records.schema import ENOUGH_ANSWERED

MOST_ROLES, LONGEST = 100, 100
"""Maximum roles of a record, and characters of a remark, accepted from a file that may be untrusted."""
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
    """Remark of the asking part on a run with too few answers in this role (`AskingPart.essential`); "" if it has
    none."""
    retried: int | None = None
    """Questions with a usable answer that came after a reply that could not be read; None where records lack it."""

    def plus(self, other: RoleCount) -> RoleCount:
        """Return the sums, without a remark; `retried` is None if it is in either."""
        retried = None if self.retried is None or other.retried is None else self.retried + other.retried
        return RoleCount(self.questions + other.questions, self.failures + other.failures, "", retried)


def written(counts: Mapping[str, RoleCount]) -> str:
    """Return role -> counts as a text, from which `read` restores them."""
    fields = {role: [*count[:3]] if count.retried is None else [*count] for role, count in counts.items()}
    return json.dumps(fields, separators=(",", ":"))


def read(text: Any) -> dict[str, RoleCount]:
    """Return role -> counts from the text that `written` made; {} for a missing value. Raise ValueError for other
    values."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict) or len(content) > MOST_ROLES:
        raise ValueError("it is no object of roles")
    return {str(role): _read(count) for role, count in content.items()}


def _read(fields: Any) -> RoleCount:
    match fields:
        case [int(questions), int(failures), str(remark), *rest] if 0 <= failures <= questions < 2**53:
            retried = rest[0] if len(rest) == 1 else None
            is_count = retried is None or (type(retried) is int and 0 <= retried <= questions - failures)
            if is_count and len(rest) <= 1 and len(remark) <= LONGEST and remark.isprintable():
                return RoleCount(int(questions), int(failures), remark, retried)
    raise ValueError(
        f"{str(fields)[:80]} is no count of a role: expected two whole numbers, a text, and a number or none"
    )
