"""What an episode is worth. It is apart from `guidebench.harness.interfaces` because reading a record needs it, and so
does the help of every command, which imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from guidebench.harness.errors import UserError


@dataclass(frozen=True)
class Score:
    """What an evaluation episode of a task is worth: tables, curves, ranks and tests are of this number.

    `success` is 1 or 0, `return` the sum of an episode's rewards, `completion` the share of the task's `subgoals` that
    hold when the episode ends. Any other name is a score of the task's own, told by `Task.score` when an episode ends.
    Raises UserError for values that do not fit together.
    """

    name: str
    direction: Literal["higher", "lower"] = "higher"
    """Which values are better."""
    low: float | None = None
    """The least that an episode can have, in the score's unit; None where no bound is known."""
    high: float | None = None
    """The most that an episode can have."""

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or len(self.name) > LONGEST_SCORE:
            raise UserError(f"score {self.name!r}: expected a printable name of at most {LONGEST_SCORE} characters")
        if self.direction not in ("higher", "lower"):
            raise UserError(f"score {self.name!r}: direction is {self.direction!r}; expected 'higher' or 'lower'")
        ends = [end for end in (self.low, self.high) if end is not None]
        if not all(map(math.isfinite, ends)) or sorted(set(ends)) != ends:
            raise UserError(f"score {self.name!r}: range [{self.low}, {self.high}]; expected low < high, both finite")
        if self.name in ("success", "completion") and (self.direction, self.low, self.high) != ("higher", 0, 1):
            raise UserError(f"score {self.name!r} is a share: its range is [0, 1], and higher is better")

    @property
    def sign(self) -> int:
        """1 where higher values are better, -1 where lower ones are."""
        return 1 if self.direction == "higher" else -1

    @property
    def span(self) -> float | None:
        """The width of the range; None where an end is not known."""
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def recorded(self) -> bool:
        """Whether evaluation rows have a column of their own for it, as success and return are columns anyway."""
        return self.name not in ("success", "return")


LONGEST_SCORE = 40
"""Characters of a score's name, which stands in the heads of tables."""
SUCCESS = Score("success", low=0.0, high=1.0)
"""The score of a task whose suite names no other."""
