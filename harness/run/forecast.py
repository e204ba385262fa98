"""How long a study will take, in words: before it begins, and corrected as its cells are timed by their own runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from guidebench.harness.errors import count
from guidebench.harness.launchers.base import Slot
from guidebench.harness.machine import cores
from guidebench.harness.plan.matrix import Plan
from guidebench.harness.run import estimates
from guidebench.harness.run.estimates import Cost, Span

CHANGED = 0.1
"""Minimum relative change of the hours that is reported."""
RESTS_ON = {
    "recorded": "by runs of it that were recorded here",
    "timed": "by some of its own updates, timed here",
    "scaled": "by operation counts and the timing of others",
    "counted": "by operation counts alone",
}
"""Basis of a cell's estimate -> its description."""


class Forecast:
    """The hours of a study's unfinished runs from its beginning, corrected as its cells are timed."""

    def __init__(
        self,
        plan: Plan,
        places: Sequence[Slot],
        costs_by_id: Mapping[str, Cost],
        unfinished_shares: Mapping[str, float],
    ) -> None:
        """`costs_by_id`: cell id -> cost, of the cells whose cost is better known than by operation counts; `shares`:
        cell id -> share of its steps that are not done, 1 if it is missing."""
        self._plan, self._places, self._shares = plan, places, unfinished_shares
        self._costs_by_id = dict(costs_by_id)
        self.costs: list[Cost] = []
        """Cost of a whole job of each cell."""
        self.hours = Span(0.0, 0.0, 0.0)
        self._remaining_costs: list[Cost] = []
        self._update()
        self._reported_hours = self.hours.hours

    def _update(self) -> None:
        self.costs = estimates.completed(self._plan, self._costs_by_id)
        shares = [self._shares.get(cell.id, 1.0) for cell in self._plan.trained]
        self._remaining_costs = [
            cost._replace(seconds=share * cost.seconds, beside=share * cost.beside)
            for cost, share in zip(self.costs, shares, strict=True)
        ]
        self.hours = estimates.elapsed(self._plan, self._remaining_costs, self._places)

    @property
    def core_hours(self) -> float:
        """Return the hours of one core that the unfinished runs take."""
        return estimates.core_hours(self._plan, self._remaining_costs, self._places)

    def sentence(self) -> str:
        """Describe the hours, their bounds, and what they rest on."""
        bases = [cost.basis for cost, rest in zip(self.costs, self._remaining_costs, strict=True) if rest.seconds]
        return (
            f"about {in_words(self.hours.hours)} on this machine with {count(len(self._places), 'worker')} "
            f"({self._places[0].device}), likely between {in_words(self.hours.low)} and {in_words(self.hours.high)}: "
            f"{rests_on(bases or [cost.basis for cost in self.costs])}"
        )

    def crowded(self) -> str:
        """Return a note that there are more workers than cores, or ""."""
        if self._places[0].device != "cpu" or len(self._places) <= cores():
            return ""
        return f"{len(self._places)} workers share {count(cores(), 'core')}, so more of them save no time"

    def time(self, cell: str, seconds: float) -> str:
        """Correct the hours by the seconds of a whole job of a cell at the pace of its learning steps, beside the other
        workers. Return the corrected sentence, or "" if little has changed since the last one."""
        place = [trained.id for trained in self._plan.trained].index(cell)
        slower = estimates.slowdown(self._plan, self._remaining_costs, self._places)
        self._costs_by_id[cell] = Cost(seconds / slower, self.costs[place].beside, "timed")
        self._update()
        if abs(self.hours.hours - self._reported_hours) <= CHANGED * self._reported_hours:
            return ""
        self._reported_hours = self.hours.hours
        return f"corrected: {self.sentence()}"


def rests_on(bases: Sequence[str]) -> str:
    """Describe the bases of the estimates of cells in words."""
    counts = Counter(bases)
    if len(counts) == 1:
        words = RESTS_ON[bases[0]]
        return f"estimated {words if len(bases) == 1 else _several(words)}"
    parts = ((counts[basis], words) for basis, words in RESTS_ON.items() if counts[basis])
    return "; ".join(f"{count(number, 'cell')} {words if number == 1 else _several(words)}" for number, words in parts)


def _several(words: str) -> str:
    """Return a description of an estimate's basis in the plural."""
    return words.replace(" it ", " these cells ").replace(" its ", " their ")


def in_words(hours: float) -> str:
    """Return a duration in seconds, minutes or hours, whichever suits it."""
    if hours < 2 / 60:
        return count(max(1, round(hours * 3600)), "second")
    if hours < 1:
        return count(round(hours * 60), "minute")
    return f"{hours:.1f} hours" if hours < 100 else f"{hours:,.0f} hours"
