"""The table of all benchmarks: each yields its own lines."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One line of the table; a goal that begins with < is an upper bound, any other a lower bound."""

    label: str
    ours: str
    peer: str
    figure: float
    goal: str

    @property
    def reached(self) -> str:
        """Return "yes" or "no", or "" without a goal."""
        if not self.goal:
            return ""
        bound = float(self.goal.lstrip("<"))
        return "yes" if (self.figure <= bound if self.goal.startswith("<") else self.figure >= bound) else "no"
