"""A table of estimates, one line a row label: what terminal, page and LaTeX show alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from guidebench.reports import statistics
from guidebench.reports.statistics import Array, Interval
from guidebench.reports.summary.rows import NONE


class Grid(NamedTuple):
    """`lines`: row label -> an estimate for each of `names`, NaN where there is none."""

    heading: str
    names: tuple[str, ...]
    lines: Mapping[str, tuple[Interval, ...]]
    note: str = ""
    """What a reader must know of the numbers."""


def over_runs(values: Array, reps: int, label: str) -> Interval:
    """The mean of one number per run [runs] with its interval; runs that have none (NaN) are left out."""
    known = np.asarray(values, float)[np.isfinite(values)]
    if not len(known):
        return NONE
    found = statistics.intervals(known[:, None], ["mean"], reps, statistics.name_seed(label, 0))["mean"]
    return Interval(*map(np.asarray, found))
