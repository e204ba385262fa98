"""Which registered part fills which role of a cell."""

from __future__ import annotations

from typing import NamedTuple


class Chosen(NamedTuple):
    """A part of a cell: the role that it has there, which is also its section, its kind, and its registered name."""

    role: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"

    @property
    def words(self) -> str:
        """The role and what fills it, with its kind where the role does not tell that: `planner openai (chat)`."""
        return f"{self.role} {self.name}" + ("" if self.role == self.kind else f" ({self.kind})")


class Names(NamedTuple):
    """What identifies a cell before its settings: `parts` by kind, in the order of `registry.KINDS`, then by role."""

    suite: str
    task: str
    method: str
    profile: str
    parts: tuple[Chosen, ...]

    def part(self, role: str) -> str:
        """The name of the part in a role; "" where the cell has no such role."""
        return next((part.name for part in self.parts if part.role == role), "")

    def of(self, *kinds: str) -> tuple[Chosen, ...]:
        """The parts of some kinds."""
        return tuple(part for part in self.parts if part.kind in kinds)

    @property
    def sections(self) -> tuple[str, ...]:
        """Where the settings of a cell with these parts stand."""
        return ("training", "evaluation", "suite", *(part.role for part in self.parts), "drawing")
