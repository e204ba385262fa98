"""The parts of a cell in its record: role -> kind, name, backend and model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from guidebench.harness.errors import UserError

MOST = 50
"""Maximum number of parts accepted in a record."""
TEXT = 4_096
"""Maximum characters accepted in a name."""


class RecordedPart(NamedTuple):
    """The part in a role of a recorded cell."""

    kind: str
    name: str
    backend: str = ""
    """Backend of a part whose answers guide the learner; "" for any other part."""
    model: str = ""
    """Name of the model of a part whose answers guide the learner; "" for any other part."""

    @property
    def answers(self) -> bool:
        """Return whether the part's answers guide the learner."""
        return bool(self.backend)


def read(content: Any) -> dict[str, RecordedPart]:
    """Return the parts under `parts` of a record, by role. Raise UserError for content that this version never
    writes."""
    if not isinstance(content, Mapping):
        raise UserError(f"parts is {str(content)[:60]!r}; expected an object")
    if len(content) > MOST:
        raise UserError(f"it names {len(content):,} parts; at most {MOST} are read")
    from guidebench.harness import registry  # here, since help of every command imports this module

    by_role = {}
    for role, part in content.items():
        subject = f"the part in the role {str(role)[:60]!r}"
        names = set(RecordedPart._fields)
        if not isinstance(part, Mapping) or not {"kind", "name"} <= set(part) <= names:
            raise UserError(
                f"{subject} is {str(part)[:60]!r}; expected an object with {', '.join(RecordedPart._fields)}"
            )
        if not all(isinstance(text, str) and text.isprintable() and len(text) <= TEXT for text in part.values()):
            raise UserError(f"{subject} is {str(part)[:200]!r}; expected printable text")
        if reason := registry.misnamed(role, part["kind"]):
            raise UserError(f"{subject} is a {part['kind'][:60]!r}: {reason}")
        by_role[role] = RecordedPart(**part)
    return by_role
