"""What a record tells of the parts of a cell: role -> its kind, its name, and how and by what model it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError

MOST = 50
"""Parts of a cell that are read."""
TEXT = 4_096
"""Characters of a name that are read."""


class RecordedPart(NamedTuple):
    """The part in a role of a cell on record."""

    kind: str
    name: str
    backend: str = ""
    """How it answers, for a part whose word guides the learner; "" for any other."""
    model: str = ""
    """Which model answers, by its own name; for the same parts."""

    @property
    def answers(self) -> bool:
        """Whether its word guides the learner."""
        return bool(self.backend)


def read(content: Any) -> dict[str, RecordedPart]:
    """The parts that a record holds under `parts`, by role; UserError for what no record of this version has."""
    if not isinstance(content, Mapping):
        raise UserError(f"parts is {str(content)[:60]!r}; expected an object")
    if len(content) > MOST:
        raise UserError(f"it names {len(content):,} parts; at most {MOST} are read")
    from guidebench.harness import registry  # here, since help of every command imports this module

    found = {}
    for role, entry in content.items():
        where = f"the part in the role {str(role)[:60]!r}"
        known = set(RecordedPart._fields)
        if not isinstance(entry, Mapping) or not {"kind", "name"} <= set(entry) <= known:
            raise UserError(
                f"{where} is {str(entry)[:60]!r}; expected an object with {', '.join(RecordedPart._fields)}"
            )
        if not all(isinstance(text, str) and text.isprintable() and len(text) <= TEXT for text in entry.values()):
            raise UserError(f"{where} is {str(entry)[:200]!r}; expected printable text")
        if reason := registry.misnamed(role, entry["kind"]):
            raise UserError(f"{where} is a {entry['kind'][:60]!r}: {reason}")
        found[role] = RecordedPart(**entry)
    return found
