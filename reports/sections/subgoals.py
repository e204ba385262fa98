"""How often each part of a task's success held at the end of an evaluation episode, for suites that declare subgoals.

The data are the records `subgoals` of runs; privileged, for evaluation only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guidebench.reports import statistics
from guidebench.reports.statistics import Interval
from guidebench.reports.summary import export
from guidebench.reports.summary.grids import Grid
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd

HEADING = "subgoals met at the end of an episode"
ACHIEVEMENTS = "achievements"
"""Score of tasks whose subgoals are achievements, which have one score together (`geometric`)."""
TOGETHER = "Crafter's score"


class Subgoals(NamedTuple):
    """One task; `rates` maps a row label to the share of episodes that met each of `names`."""

    where: str
    names: tuple[str, ...]
    rates: Mapping[str, tuple[Interval, ...]]


def subgoals(
    cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str], reps: int = statistics.REPS
) -> list[Subgoals]:
    """Return means over seeds at the last evaluation that all seeds of a cell have, from the records `subgoals`;
    `labels`: cell id -> row label."""
    by_task: dict[str, dict[str, pd.DataFrame]] = {}
    for cell in cells:
        mine = rows[rows["cell"] == cell.id]
        shared = mine.groupby("step")["seed"].nunique()
        shared = shared[shared == mine["seed"].nunique()]
        if len(shared):
            last = mine[mine["step"] == shared.index.max()]
            rates = last.groupby(["seed", "subgoal"], sort=False)["met"].mean().unstack()
            if cell.score.name == ACHIEVEMENTS:
                rates[TOGETHER] = geometric(rates.to_numpy(float))
            by_task.setdefault(f"{cell.suite}/{cell.task}", {})[labels.get(cell.id, cell.label)] = rates
    return [_table(where, rates, reps) for where, rates in by_task.items()]


def geometric(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Crafter's score, as a share, of success rates [seeds, achievements]: with s the rates in per cent,
    exp(mean ln(1 + s)) - 1 per cent (Hafner 2022, eq. 1)."""
    score: NDArray[np.float64] = np.expm1(np.log1p(100 * rates).mean(axis=1)) / 100
    return score


def tables(found: Sequence[Subgoals]) -> list[Grid]:
    """Return one table per task."""
    return [Grid(f"{each.where}: {HEADING}", each.names, each.rates) for each in found]


def _table(where: str, rates: Mapping[str, pd.DataFrame], reps: int) -> Subgoals:
    names = tuple(dict.fromkeys(name for frame in rates.values() for name in frame.columns))
    found = {}
    for label, frame in rates.items():
        scores = frame.reindex(columns=names).to_numpy(float)[:, None]  # [seeds, 1, subgoals]
        means = statistics.intervals(scores, ["mean"], reps, statistics.name_seed(label, 0))["mean"]
        found[label] = tuple(Interval(*ends) for ends in zip(*means, strict=True))
    return Subgoals(where, names, found)


def plain(found: Sequence[Subgoals]) -> list[dict[str, Any]]:
    """Return the tables of subgoals: task, and per row the share of episodes that met each."""
    return [
        {
            "task": each.where,
            "rows": [
                {"label": label, **{name: export.spread(rate) for name, rate in zip(each.names, rates, strict=True)}}
                for label, rates in each.rates.items()
            ],
        }
        for each in found
    ]
