"""A section of the report: the goals that a model suggested, and those that training achieved (ELLM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.sections import Section, Source
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.listings import Listing

if TYPE_CHECKING:
    import pandas as pd

GOAL_COLUMNS = ("goals", "kept", "proposed", "unknown", "senseless", "cut", "failed")
"""Columns of the log `goals` that are read."""
ACHIEVED_COLUMNS = ("episode", "goals", "count")
"""Columns of the log `achieved` that are read."""
QUESTIONS, FAILED, GOALS_PER_STATE = "questions per million steps", "failed", "goals per state"
UNKNOWN, SENSELESS = "unknown goals", "senseless goals"
ACHIEVED, DISTINCT, SHARE = "achieved per episode", "distinct achieved", "suggested goals achieved"
NUMBERS = (QUESTIONS, FAILED, GOALS_PER_STATE, UNKNOWN, SENSELESS, ACHIEVED, DISTINCT, SHARE)
MOST = 30
"""Most goals of a row that are listed."""
NOTE = (
    "Means over runs. Questions: distinct states asked about, scaled to a million steps by the run's own rate, which "
    "falls as states repeat. Failed: the share of questions without a valid answer. Goals per state: those that are "
    "kept. Unknown: the share of proposed goals that were kept out because they are no verb and noun of the task. "
    "Senseless: the share of proposed goals of the task's words that no step can achieve. Achieved per episode: "
    "distinct goals that an episode of training achieved. Distinct achieved: those of the whole run; suggested goals "
    "achieved: their share of the distinct goals that the run kept."
)
LIST_NOTE = (
    "States whose answer kept the goal, and episodes of training that achieved it, over all runs; most often achieved "
    "first."
)


class Goals(NamedTuple):
    """The goals of a row's runs on one task; intervals are over runs."""

    label: str
    task: str
    runs: int
    numbers: Mapping[str, Interval]
    """`NUMBERS` -> the estimate; NaN if no run has it."""
    counts: Mapping[str, tuple[int, int]]
    """Goal -> states for which it was kept, and episodes that achieved it."""


def goals(source: Source) -> list[Goals]:
    """Return one row per cell that has records in the log `goals`."""
    suggested, reached = source.rows("goals", *GOAL_COLUMNS), source.rows("achieved", *ACHIEVED_COLUMNS)
    goals_of_cells = []
    for cell in source.study.cells:
        asked_states, achieved = (rows[rows["cell"] == cell.id] for rows in (suggested, reached))
        if asked_states.empty:
            continue
        label = source.labels.get(cell.id, cell.label)
        runs = [
            of_run(run, achieved[achieved["seed"] == seed], cell.steps) for seed, run in asked_states.groupby("seed")
        ]
        numbers = {
            name: grids.over_runs(np.array([run[name] for run in runs]), source.resamples, label) for name in NUMBERS
        }
        goals_of_cells.append(
            Goals(label, f"{cell.suite}/{cell.task}", len(runs), numbers, counts(asked_states, achieved))
        )
    return goals_of_cells


def of_run(suggested: pd.DataFrame, reached: pd.DataFrame, steps: int) -> dict[str, float]:
    """Return the quantities `NUMBERS` of one run of so many steps, given its records of the logs `goals` and
    `achieved`; NaN where nothing was proposed, or no episode ended."""
    proposed, kept_goals, achieved_goals = suggested["proposed"].sum(), _distinct(suggested), _distinct(reached)
    nothing = float("nan")
    return {
        QUESTIONS: 1e6 * len(suggested) / max(steps, 1),
        FAILED: float(suggested["failed"].astype(bool).mean()),
        GOALS_PER_STATE: float(suggested["kept"].mean()),
        UNKNOWN: float(suggested["unknown"].sum() / proposed) if proposed else nothing,
        SENSELESS: float(suggested["senseless"].sum() / proposed) if proposed else nothing,
        ACHIEVED: float(reached["count"].mean()) if len(reached) else nothing,
        DISTINCT: float(len(achieved_goals)),
        SHARE: len(achieved_goals & kept_goals) / len(kept_goals) if kept_goals else nothing,
    }


def counts(suggested: pd.DataFrame, reached: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return goal -> number of states for which it was kept, and of episodes that achieved it; most often achieved
    first. The arguments are records of the logs `goals` and `achieved`."""
    counts_of_goals: dict[str, list[int]] = {}
    for column, rows in enumerate((suggested, reached)):
        for names in rows["goals"]:
            for goal in filter(None, names.split(", ")):
                counts_of_goals.setdefault(goal, [0, 0])[column] += 1
    order = sorted(counts_of_goals, key=lambda goal: (-counts_of_goals[goal][1], -counts_of_goals[goal][0], goal))
    return {goal: (counts_of_goals[goal][0], counts_of_goals[goal][1]) for goal in order}


def _distinct(rows: pd.DataFrame) -> set[str]:
    return {goal for names in rows["goals"] for goal in names.split(", ") if goal}


def tables(goals_of_cells: Sequence[Goals]) -> list[Grid]:
    """Return a table by task of what was suggested and achieved."""
    grids_of_tasks = []
    for task in dict.fromkeys(row.task for row in goals_of_cells):
        members = [row for row in goals_of_cells if row.task == task]
        lines = {row.label: tuple(row.numbers[name] for name in NUMBERS) for row in members}
        runs = "; ".join(f"{row.label}: runs: {row.runs}" for row in members)
        grids_of_tasks.append(Grid(f"{task}: suggested goals", NUMBERS, lines, f"{NOTE} {runs}."))
    return grids_of_tasks


def listings(goals_of_cells: Sequence[Goals]) -> list[Listing]:
    """Return a table by task of each row's goals."""
    tables_of_tasks = []
    for task in dict.fromkeys(row.task for row in goals_of_cells if row.counts):
        lines: list[tuple[str, ...]] = []
        for row in (row for row in goals_of_cells if row.task == task and row.counts):
            for goal, (states, episodes) in [*row.counts.items()][:MOST]:
                lines.append((row.label, goal, f"{states:,}", f"{episodes:,}"))
            if (omitted := len(row.counts) - MOST) > 0:
                lines.append((row.label, f"{omitted} further goals, left out", "", ""))
        heading = f"{task}: goals by how often they were achieved"
        tables_of_tasks.append(Listing(heading, ("goal", "states", "episodes"), lines, words=1, note=LIST_NOTE))
    return tables_of_tasks


def plain(goals_of_cells: Sequence[Goals]) -> list[dict[str, Any]]:
    """Return the numbers per row and task as JSON data."""
    return [
        {
            "label": row.label,
            "task": row.task,
            "runs": row.runs,
            **{name.replace(" ", "_"): export.spread(interval) for name, interval in row.numbers.items()},
            "goals": {
                goal: {"states": states, "episodes": episodes} for goal, (states, episodes) in row.counts.items()
            },
        }
        for row in goals_of_cells
    ]


SECTIONS = (
    Section(
        name="goals",
        title="Suggested goals",
        order=840,
        needs=("goals", "achieved"),
        load=goals,
        tables=tables,
        listings=listings,
        plain=plain,
    ),
)
