"""Exports of a study's evaluations for other programs: marl-eval's JSON, or one plain CSV."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

CSV_COLUMNS = (
    "suite", "task", "method", "variant", "learner", "backend", "model", "profile", "cell", "seed", "step", "episode",
    "success", "return", "length", "score",
)  # fmt: skip
METRICS = ("success", "return", "score")


class Exported(NamedTuple):
    """The text of an exported file, and notes for its reader."""

    text: str
    notes: tuple[str, ...] = ()


def plain_csv(rows: pd.DataFrame, labels: Mapping[str, str]) -> Exported:
    """Return evaluation episodes (`results.load`) as CSV, one row per episode, with the identifying columns first."""
    out = io.StringIO()
    table = rows[list(CSV_COLUMNS)].assign(success=rows["success"].astype(int))
    table.to_csv(out, index=False, lineterminator="\n")
    return Exported(out.getvalue())


def marl_eval(rows: pd.DataFrame, labels: Mapping[str, str]) -> Exported:
    """Return suite → task → row → seed → evaluation, as marl-eval reads raw experiments; `labels`: cell -> row name.

    Each evaluation has its `step_count` and, per metric (success, return, and the suite's score), a list with one
    number per episode. Names of suites and tasks are in lower case, as marl-eval looks them up. Its `absolute_metrics`
    are meant to be ten times as many episodes of the best policy; no such evaluation is recorded, so they hold the last
    evaluation's episodes.
    """
    import json

    suites: dict[str, Any] = {}
    ordered = rows.sort_values(["step", "episode"], kind="stable")
    for (cell, seed), run in ordered.groupby(["cell", "seed"], sort=False):
        first = run.iloc[0]
        tasks = suites.setdefault(str(first["suite"]).lower(), {})
        runs = tasks.setdefault(str(first["task"]).lower(), {}).setdefault(labels[str(cell)], {})
        values: dict[str, list[float]] = {}
        steps: dict[str, Any] = {}
        for number, (_, episodes) in enumerate(run.groupby("step")):
            values = {name: episodes[name].astype(float).tolist() for name in METRICS}
            steps[f"step_{number}"] = {"step_count": int(episodes["step"].iloc[0]), **values}
        runs[f"seed_{seed}"] = {**steps, "absolute_metrics": values}
    notes = [
        "absolute_metrics hold the episodes of the last evaluation; no longer evaluation of the best policy exists"
    ]
    return Exported(json.dumps(suites, indent=1, ensure_ascii=False, allow_nan=False) + "\n", (*notes, *ragged(suites)))


def ragged(suites: Mapping[str, Any]) -> list[str]:
    """Return notes on suites that marl-eval will refuse: it requires the same rows, seeds and number of evaluations for
    all tasks."""
    notes = []
    for suite, tasks in suites.items():
        shapes: dict[str, set[Any]] = {"rows": set(), "seeds": set(), "numbers of evaluations": set()}
        for rows in tasks.values():
            shapes["rows"].add(tuple(sorted(rows)))
            shapes["seeds"] |= {tuple(sorted(runs)) for runs in rows.values()}
            shapes["numbers of evaluations"] |= {len(run) - 1 for runs in rows.values() for run in runs.values()}
        uneven = [dimension for dimension, distinct in shapes.items() if len(distinct) > 1]
        if uneven:
            notes.append(f"{suite}: its tasks and rows differ in {', '.join(uneven)}, which marl-eval does not take")
    return notes


FORMATS: Mapping[str, Callable[[Any, Mapping[str, str]], Exported]] = {"marl-eval": marl_eval, "csv": plain_csv}
