"""Outcomes of evaluation episodes besides their score, for suites whose tasks count them (`HasOutcomes`): numbers such
as completion and survival, and the length of episodes in steps and in seconds.

The data are the records `outcomes`, `evaluations` and `timings` of runs; privileged, for evaluation only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Array, Interval
from guidebench.reports.summary import export
from guidebench.reports.summary.grids import Grid, over_runs
from guidebench.reports.summary.records import of_cell
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd

HEADING = "episodes of the last evaluation"
SUCCESS, STEPS, SECONDS = "success", "steps", "wall seconds"
STANDARD = (SUCCESS, STEPS, SECONDS)
NOTE = (
    "Means over the episodes of the last evaluation that all seeds have. Wall seconds: of all evaluations of a worker, "
    "by their episodes, which are stepped together; an episode alone takes longer."
)
UNTIMED = "records do not say how long evaluations took, so their episodes have a length in steps alone"


class Episodes(NamedTuple):
    """Means over the last evaluation's episodes on one task; `means`: row label -> an estimate for each of `names`."""

    task_id: str
    names: tuple[str, ...]
    means: Mapping[str, tuple[Interval, ...]]


def episodes(
    cells: Iterable[CellRecord],
    outcomes: pd.DataFrame,
    evaluations: pd.DataFrame,
    timings: pd.DataFrame,
    labels: Mapping[str, str],
    reps: int,
    notes: list[str],
) -> list[Episodes]:
    """Return means over seeds at the last evaluation that all seeds of a cell have, for the cells with records
    `outcomes`; `labels`: cell id -> row label. Cells without a clock of evaluations are named in `notes`."""
    by_task: dict[str, dict[str, dict[str, Array]]] = {}
    for cell in cells:
        cell_outcomes, cell_episodes = (of_cell(rows, cell.id) for rows in (outcomes, evaluations))
        shared = cell_episodes.groupby("step")["seed"].nunique()
        shared = shared[shared == cell_episodes["seed"].nunique()]
        if cell_outcomes.empty or shared.empty:
            continue
        last = shared.index.max()
        seeds = cell_episodes["seed"].unique()
        last_episodes = cell_episodes[cell_episodes["step"] == last].groupby("seed")
        more = (
            cell_outcomes[cell_outcomes["step"] == last]
            .groupby(["seed", "outcome"], sort=False)["value"]
            .mean()
            .unstack()
        )
        label = labels.get(cell.id, cell.label)
        measures = {
            SUCCESS: last_episodes["success"].mean(),
            **{str(name): more[name] for name in more if name not in STANDARD},
            STEPS: last_episodes["length"].mean(),
            SECONDS: seconds_of_episode(of_cell(timings, cell.id), cell_episodes),
        }
        if measures[SECONDS].isna().all():
            notes.append(f"{cell.task_id}, {label}: its {UNTIMED}")
        by_task.setdefault(cell.task_id, {})[label] = {
            name: values.reindex(seeds).to_numpy(float) for name, values in measures.items()
        }
    return [_table(task_id, rows, reps) for task_id, rows in by_task.items()]


def seconds_of_episode(clock: pd.DataFrame, played: pd.DataFrame) -> pd.Series[float]:
    """Return seed -> wall seconds per evaluation episode, over all evaluations up to the last record of the clock.
    Between two records a seed has an equal share of its worker's seconds, by the number of seeds trained together then,
    which may change when a run continues."""
    import pandas as pd

    by_seed = {}
    for seed, run_clock in clock.sort_values("step").groupby("seed") if "evaluation_seconds" in clock else ():
        seconds = np.diff(run_clock["evaluation_seconds"], prepend=0.0)
        share = (seconds / run_clock["seeds"]).sum() if "seeds" in run_clock else seconds.sum()
        count = ((played["seed"] == seed) & (played["step"] <= run_clock["step"].max())).sum()
        by_seed[seed] = share / count if count else np.nan
    return pd.Series(by_seed, dtype=float)


def _table(task_id: str, rows: Mapping[str, Mapping[str, Array]], reps: int) -> Episodes:
    ordered = dict.fromkeys(name for measures in rows.values() for name in measures if name not in (STEPS, SECONDS))
    names = [*ordered, STEPS]
    if any(np.isfinite(measures[SECONDS]).any() for measures in rows.values()):
        names.append(SECONDS)
    nothing = np.full(1, np.nan)
    means = {
        label: tuple(over_runs(measures.get(name, nothing), reps, label) for name in names)
        for label, measures in rows.items()
    }
    return Episodes(task_id, tuple(names), means)


def tables(tasks: Sequence[Episodes]) -> list[Grid]:
    """Return a table of estimates for each task."""
    return [Grid(f"{task.task_id}: {HEADING}", task.names, task.means, NOTE) for task in tasks]


def plain(tasks: Sequence[Episodes]) -> list[dict[str, Any]]:
    """Return the means by task and row as JSON data."""
    return [
        {
            "task": task.task_id,
            "rows": [
                {"label": label, "means": dict(zip(task.names, map(export.spread, means), strict=True))}
                for label, means in task.means.items()
            ],
        }
        for task in tasks
    ]
