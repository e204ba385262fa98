"""Tables of estimates with one line per row label, for terminal, page and LaTeX alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.summary import scoring
from guidebench.reports.summary.rows import NONE


class Grid(NamedTuple):
    """A table of estimates. `lines`: row label -> an estimate for each of `names`, NaN if there is none."""

    heading: str
    names: tuple[str, ...]
    lines: Mapping[str, tuple[Interval, ...]]
    note: str = ""
    """What a reader must know about the numbers."""
    digits: Mapping[str, int] = MappingProxyType({})
    """Name -> its decimals, where they are not those that its intervals justify (`scoring.digits`)."""
    on: Literal["all", "latex"] = "all"
    """Where it is shown: everywhere, or in LaTeX alone, where page and terminal have its numbers in a `Listing`."""
    brackets: str = "95 % bootstrap interval over seeds"
    """What the intervals are."""

    def decimals(self, name: str) -> int:
        """Return the number of decimals of the column `name`."""
        place = self.names.index(name)
        column = [line[place] for line in self.lines.values()]
        return self.digits[name] if name in self.digits else scoring.digits(column)


def over_runs(values: Array, reps: int, label: str) -> Interval:
    """Return the mean of one number per run, [runs], with its interval; runs without a number (NaN) are left out.
    `label` seeds the resamples."""
    finite = np.asarray(values, float)[np.isfinite(values)]
    if not len(finite):
        return NONE
    interval = statistics.intervals(finite[:, None], ["mean"], reps, statistics.name_seed(label, 0))["mean"]
    return Interval(*map(np.asarray, interval))


def curve_over_runs(curves: Array, reps: int, label: str) -> Interval:
    """Return the means of curves [runs, n], each with its interval; `label` seeds the resamples."""
    few = min(reps, statistics.CURVE_REPS)
    return statistics.intervals(curves[:, None], ["mean"], few, statistics.name_seed(label, 0))["mean"]
