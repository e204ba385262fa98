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
    """Return one entry per cell of which a run asked for goals."""
    suggested, reached = source.rows("goals", *GOAL_COLUMNS), source.rows("achieved", *ACHIEVED_COLUMNS)
    found = []
    for cell in source.study.cells:
        mine, achieved = (rows[rows["cell"] == cell.id] for rows in (suggested, reached))
        if mine.empty:
            continue
        label = source.labels.get(cell.id, cell.label)
        runs = [of_run(run, achieved[achieved["seed"] == seed], cell.steps) for seed, run in mine.groupby("seed")]
        numbers = {
            name: grids.over_runs(np.array([run[name] for run in runs]), source.resamples, label) for name in NUMBERS
        }
        found.append(Goals(label, f"{cell.suite}/{cell.task}", len(runs), numbers, counts(mine, achieved)))
    return found


def of_run(suggested: pd.DataFrame, reached: pd.DataFrame, steps: int) -> dict[str, float]:
    """Return `NUMBERS` of one run of so many steps; NaN where nothing was proposed, or no episode ended."""
    proposed, kept, done = suggested["proposed"].sum(), _distinct(suggested), _distinct(reached)
    nothing = float("nan")
    return {
        QUESTIONS: 1e6 * len(suggested) / max(steps, 1),
        FAILED: float(suggested["failed"].astype(bool).mean()),
        GOALS_PER_STATE: float(suggested["kept"].mean()),
        UNKNOWN: float(suggested["unknown"].sum() / proposed) if proposed else nothing,
        SENSELESS: float(suggested["senseless"].sum() / proposed) if proposed else nothing,
        ACHIEVED: float(reached["count"].mean()) if len(reached) else nothing,
        DISTINCT: float(len(done)),
        SHARE: len(done & kept) / len(kept) if kept else nothing,
    }


def counts(suggested: pd.DataFrame, reached: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return goal -> states for which it was kept, and episodes that achieved it; most often achieved first."""
    found: dict[str, list[int]] = {}
    for column, rows in enumerate((suggested, reached)):
        for told in rows["goals"]:
            for goal in filter(None, told.split(", ")):
                found.setdefault(goal, [0, 0])[column] += 1
    order = sorted(found, key=lambda goal: (-found[goal][1], -found[goal][0], goal))
    return {goal: (found[goal][0], found[goal][1]) for goal in order}


def _distinct(rows: pd.DataFrame) -> set[str]:
    return {goal for told in rows["goals"] for goal in told.split(", ") if goal}


def tables(found: Sequence[Goals]) -> list[Grid]:
    """Return a table by task of what was suggested and achieved."""
    made = []
    for where in dict.fromkeys(each.task for each in found):
        members = [each for each in found if each.task == where]
        lines = {each.label: tuple(each.numbers[name] for name in NUMBERS) for each in members}
        runs = "; ".join(f"{each.label}: runs: {each.runs}" for each in members)
        made.append(Grid(f"{where}: suggested goals", NUMBERS, lines, f"{NOTE} {runs}."))
    return made


def listings(found: Sequence[Goals]) -> list[Listing]:
    """Return a table by task of each row's goals."""
    made = []
    for where in dict.fromkeys(each.task for each in found if each.counts):
        lines: list[tuple[str, ...]] = []
        for each in (each for each in found if each.task == where and each.counts):
            for goal, (states, episodes) in [*each.counts.items()][:MOST]:
                lines.append((each.label, goal, f"{states:,}", f"{episodes:,}"))
            if (left := len(each.counts) - MOST) > 0:
                lines.append((each.label, f"{left} further goals, left out", "", ""))
        heading = f"{where}: goals by how often they were achieved"
        made.append(Listing(heading, ("goal", "states", "episodes"), lines, words=1, note=LIST_NOTE))
    return made


def plain(found: Sequence[Goals]) -> list[dict[str, Any]]:
    """Return the numbers per row and task as JSON data."""
    return [
        {
            "label": each.label,
            "task": each.task,
            "runs": each.runs,
            **{name.replace(" ", "_"): export.spread(value) for name, value in each.numbers.items()},
            "goals": {
                goal: {"states": states, "episodes": episodes} for goal, (states, episodes) in each.counts.items()
            },
        }
        for each in found
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
