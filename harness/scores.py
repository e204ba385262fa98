"""Scores of evaluation episodes. They are not defined in `guidebench.harness.interfaces`, because commands that only
read records or print help need them and must not import heavy packages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from guidebench.harness.errors import UserError


@dataclass(frozen=True)
class Score:
    """The score of a task's evaluation episodes; tables, learning curves, ranks and tests use this number.

    `success` is 1 or 0, `return` the sum of an episode's rewards, `completion` the share of the task's `subgoals` that
    hold when the episode ends. Any other name is a task-specific score, which the task's `score()` returns when an
    episode ends (`ScoresEpisodes`). Raises UserError for inconsistent values.
    """

    name: str
    direction: Literal["higher", "lower"] = "higher"
    """Which values are better."""
    low: float | None = None
    """Minimum score of an episode, in the score's unit; None if no bound is known."""
    high: float | None = None
    """Maximum score of an episode; None if no bound is known."""

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
        """Return 1 if higher values are better, else -1."""
        return 1 if self.direction == "higher" else -1

    @property
    def span(self) -> float | None:
        """Return the width of the range, or None if a bound is unknown."""
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def recorded(self) -> bool:
        """Return whether episode records need an extra column for the score; success and return are always columns."""
        return self.name not in ("success", "return")


LONGEST_SCORE = 40
"""Maximum characters of a score's name, which appears in table headings."""
SUCCESS = Score("success", low=0.0, high=1.0)
"""The default score, for tasks whose suite declares none."""
