"""A section of the report: the goals that a model suggested, and those that training achieved (ELLM)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from guidebench.reports.sections import Section, Source, quantities
from guidebench.reports.sections.quantities import Quantities
from guidebench.reports.summary.listings import Listing
from guidebench.reports.summary.records import by_task, of_cell

if TYPE_CHECKING:
    import pandas as pd

GOAL_COLUMNS = ("goals", "kept", "proposed", "unknown", "senseless", "cut", "failed")
"""Columns of the log `goals` that are read."""
ACHIEVED_COLUMNS = ("episode", "goals", "count")
"""Columns of the log `achieved` that are read."""
QUESTIONS, FAILED, GOALS_PER_STATE = "questions per million steps", "failed", "goals per state"
UNKNOWN, SENSELESS = "unknown goals", "senseless goals"
ACHIEVED, DISTINCT, SHARE = "achieved per episode", "distinct achieved", "suggested goals achieved"
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


def goals(source: Source) -> list[Quantities]:
    """Return one row per cell that has records in the log `goals`."""
    suggested, reached = source.rows("goals", *GOAL_COLUMNS), source.rows("achieved", *ACHIEVED_COLUMNS)
    steps = {cell.id: cell.steps for cell in source.study.cells}

    def of_suggested(run: pd.DataFrame) -> dict[str, float]:
        cell, seed = run.iloc[0][["cell", "seed"]]
        return of_run(run, of_cell(reached, cell, seed), steps[cell])

    rows = quantities.of_runs(source, suggested, of_suggested)
    return [row._replace(details=counts(row.log.records, of_cell(reached, row.log.cell.id))) for row in rows]


def of_run(suggested: pd.DataFrame, reached: pd.DataFrame, steps: int) -> dict[str, float]:
    """Return the quantities of one run of so many steps, given its records of the logs `goals` and
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


def listings(goals_of_cells: Sequence[Quantities]) -> list[Listing]:
    """Return a table by task of each row's goals."""
    tables_of_tasks = []
    for task, rows in by_task(row for row in goals_of_cells if row.details).items():
        lines: list[tuple[str, ...]] = []
        for row in rows:
            ranked = [(goal, *map("{:,}".format, numbers)) for goal, numbers in row.details.items()]
            lines += quantities.leading(row.label, ranked, MOST, "further goals")
        heading = f"{task}: goals by how often they were achieved"
        tables_of_tasks.append(Listing(heading, ("goal", "states", "episodes"), lines, words=1, note=LIST_NOTE))
    return tables_of_tasks


def plain(goals_of_cells: Sequence[Quantities]) -> list[dict[str, Any]]:
    """Return the numbers per row and task as JSON data."""
    return [
        {
            **quantities.plain(row),
            "goals": {
                goal: {"states": states, "episodes": episodes} for goal, (states, episodes) in row.details.items()
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
        tables=partial(quantities.grids, subject="suggested goals", note=NOTE, counts=lambda row: f"runs: {row.runs}"),
        listings=listings,
        plain=plain,
    ),
)
