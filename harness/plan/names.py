"""The registered part in each role of a cell, and the roles in which a set of models has none of its own."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Chosen(NamedTuple):
    """A part of a cell: its role (also its section), its kind, and its registered name."""

    role: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"

    def named(self, role: str, name: str) -> bool:
        """Return whether this is the part that `role.name` means in a command or a layer of settings: the part of that
        role, by its registered name or by the short one of `registry.meant`."""
        return role == self.role and self.name in (name, f"{name}_{role}")

    @property
    def words(self) -> str:
        """Return role and name, with the kind if it differs from the role: `planner openai (chat)`."""
        return f"{self.role} {self.name}" + ("" if self.role == self.kind else f" ({self.kind})")


class Names(NamedTuple):
    """The names that identify a cell apart from its settings; `parts` are sorted by `registry.KINDS`, then by role."""

    suite: str
    task: str
    method: str
    profile: str
    parts: tuple[Chosen, ...]

    def part(self, role: str) -> str:
        """Return the name of the part in a role, or "" if the cell has no such role."""
        return next((part.name for part in self.parts if part.role == role), "")

    def of(self, *kinds: str) -> tuple[Chosen, ...]:
        """Return the parts of the given kinds."""
        return tuple(part for part in self.parts if part.kind in kinds)

    @property
    def sections(self) -> tuple[str, ...]:
        """Return the sections that the settings of a cell with these parts may have."""
        return ("training", "evaluation", "suite", *(part.role for part in self.parts), "drawing")


class StandIns(NamedTuple):
    """The roles of a cell in which its set of models has no part, so that another set stands in."""

    models: str = ""
    """Name of the set, which fills the roles that the command leaves open; "" for the usual one of the profile."""
    roles: tuple[tuple[str, str], ...] = ()
    """Each such role and the set that stands in, or "" where none has a part, in the order of the cell's parts."""
    argument: str = ""
    """What the word `models.SET=` names."""

    def among(self, roles: Collection[str]) -> StandIns:
        """Return the stand-ins of these roles only."""
        return self._replace(roles=tuple((role, instead) for role, instead in self.roles if role in roles))

    def __str__(self) -> str:
        """Return the stand-ins as row names show them: `oracle (scorer: scripted; text_embedder: scripted)`; "" for
        none."""
        replacements = "; ".join(f"{role}: {instead}" for role, instead in self.roles)
        return f"{self.models} ({replacements})" if replacements else ""


NO_STAND_INS = StandIns()
