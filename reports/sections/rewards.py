"""The learned reward beside the task's own: along the reference episode (RL-SaLLM-F, figure 5), and as the accuracy of
its preferences on unseen pairs (table 6).

The data are the records `probes` of runs. A learned reward has no scale of its own: along the episode every run's is
shifted and scaled to [0, 1], as the task's is, and their correlation measures how closely the two agree.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Array, Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Chart, Curve, Drawing, literal
from guidebench.reports.summary import export, grids
from guidebench.reports.summary.grids import Grid
from guidebench.reports.summary.records import by_cell, by_task
from guidebench.reports.summary.rows import NONE
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd

REMARK = (
    "The learned reward at each move of the task's reference episode, at the last look at it, shifted and scaled to "
    "[0, 1] for each run, then their mean; dashed: the task's own, likewise; grey: random moves. Below, how often the "
    "learned reward prefers the segment with more of the task's own reward, of pairs of mixed quality that no run has "
    "seen. With 95 % intervals over seeds. Where a run's seed decides its layout, each run is held to an episode of "
    "its own, and the random moves are those of the first."
)
NOTE = (
    "At the last look that all runs have had. Correlation (Pearson's) with the task's own reward over the moves of the "
    "reference episode; accuracy: of preferences on pairs of segments that no run has seen."
)
CORRELATION, ACCURACY = "correlation with the task's reward", "accuracy on unseen pairs"


class Learned(NamedTuple):
    """The learned reward of one row beside the task's own, on one task; intervals are over its runs."""

    label: str
    task_id: str
    seeds: int
    random: Array
    """Random moves of the reference episode; those of the first run if each run has an episode of its own."""
    true: Array
    """The task's own reward of each move, in [0, 1], [T]; the mean if each run has an episode of its own."""
    learned: Interval
    """The learned reward at the last probe that all runs have had, in [0, 1], [T]."""
    correlation: Interval
    steps: Array
    """Environment steps of the probes that all runs have had, [n]."""
    accuracy: Interval | None
    """Accuracy on unseen pairs, [n]; None if the task has none."""


def learned(
    cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str], reps: int = statistics.REPS
) -> list[Learned]:
    """Return an entry for each cell whose runs have probed their learned reward. `rows`: records of `probes`; `labels`:
    cell id -> row label."""
    rewarded = []
    for log in by_cell(cells, rows, labels):
        by_name = {str(name): records for name, records in log.records.groupby("quantity")}
        if not {"reward", "true_reward", "expert"} <= by_name.keys():
            continue
        looks = by_name["reward"].groupby("step")["seed"].nunique()
        steps = np.array(looks.index[looks == by_name["reward"]["seed"].nunique()], dtype=int)
        if not len(steps):
            continue
        last = by_name["reward"][by_name["reward"]["step"] == steps[-1]]
        table = last.pivot(index="seed", columns="t", values="value")
        paid = by_name["true_reward"].groupby(["seed", "t"])["value"].first().unstack().reindex(table.index)
        along, true = table.to_numpy(float), paid.to_numpy(float)  # [runs, T]
        if along.shape != true.shape or not (np.isfinite(along) & np.isfinite(true)).all():
            continue  # some learned reward was not finite
        expert = by_name["expert"].groupby("t")["value"].first().to_numpy() > 0
        correlations = np.array([_correlation(run, task_reward) for run, task_reward in zip(along, true, strict=True)])
        scaled = np.stack([_scaled(run) for run in true])
        rewarded.append(
            Learned(
                label=log.label,
                task_id=log.task_id,
                seeds=len(along),
                random=np.flatnonzero(~expert),
                true=scaled[0] if (scaled == scaled[0]).all() else scaled.mean(axis=0),
                learned=grids.curve_over_runs(np.stack([_scaled(run) for run in along]), reps, log.label),
                correlation=grids.over_runs(correlations, reps, log.label),
                steps=steps,
                accuracy=_accuracy(by_name.get("label_accuracy"), steps, reps, log.label),
            )
        )
    return rewarded


def _accuracy(rows: pd.DataFrame | None, steps: Array, reps: int, label: str) -> Interval | None:
    if rows is None:
        return None
    table = rows.pivot(index="seed", columns="step", values="value").reindex(columns=steps).to_numpy(float)
    return grids.curve_over_runs(table, reps, label) if np.isfinite(table).all() else None


def _scaled(values: Array) -> Array:
    """Shift and scale an array to [0, 1]; a constant array becomes 0."""
    span = values.max() - values.min()
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _correlation(first: Array, second: Array) -> float:
    """Return Pearson's correlation of two arrays; NaN if one of them is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def tables(rewarded: Sequence[Learned]) -> list[Grid]:
    """Return a table of estimates for each task: correlation with the task's reward, and accuracy on unseen pairs."""
    grids = []
    for task_id, members in by_task(rewarded).items():
        lines = {}
        for reward in members:
            accuracy = NONE if reward.accuracy is None else Interval(*(end[-1] for end in reward.accuracy))
            lines[reward.label] = (reward.correlation, accuracy)
        grids.append(Grid(f"{task_id}: learned reward beside the task's own", (CORRELATION, ACCURACY), lines, NOTE))
    return grids


def drawings(rewarded: Sequence[Learned], places: Mapping[str, int]) -> list[Drawing]:
    """Draw by task the rewards along the reference episode, and accuracies over training; `places`:
    `figures.styles`."""
    drawings = []
    for task_id, members in by_task(rewarded).items():
        plotted = {reward.label: reward for reward in members if reward.label in places}
        if plotted:
            drawings += [
                along(task_id, figures.file_name("rewards", task_id), plotted, places),
                _accuracies(task_id, plotted, places),
            ]
    return figures.numbered(drawings)


def along(task_id: str, name: str, members: Mapping[str, Learned], places: Mapping[str, int]) -> Drawing:
    """Draw rewards along the reference episode, a panel for each over the task's own; `members` is keyed by name."""
    with figures.canvas(0.85 * len(members) + 0.7) as canvas:
        panels = np.atleast_1d(canvas.subplots(len(members), 1, sharex=True, sharey=True))
        for axes, (label, reward) in zip(panels, members.items(), strict=True):
            moves = np.arange(len(reward.true))
            stretches = (
                np.split(reward.random, np.flatnonzero(np.diff(reward.random) > 1) + 1) if len(reward.random) else []
            )
            for stretch in stretches:
                axes.axvspan(stretch[0], stretch[-1] + 1, color="#E6E6E6", linewidth=0)
            axes.plot(moves, reward.true, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
            colour = figures.PALETTE[places[label] % len(figures.PALETTE)]
            axes.plot(moves, reward.learned.estimate, color=colour, linewidth=1.1)
            if np.isfinite(reward.learned.low).all():
                ends = (reward.learned.low, reward.learned.high)
                axes.fill_between(moves, *ends, color=colour, alpha=0.18, linewidth=0)
            axes.set_title(textwrap.shorten(literal(label), 60, placeholder="…"), loc="left", pad=2, fontsize=7)
            axes.set(ylim=(-0.05, 1.05), yticks=(0, 1), xlim=(0, len(moves)))
        panels[-1].set_xlabel("move of the reference episode")
        canvas.supylabel("reward, scaled to [0, 1]", fontsize=8)
        canvas.suptitle(textwrap.fill(literal(task_id), figures.LABEL_CHARACTERS), fontsize=8)
        png, pdf = figures.saved(canvas)
    words = "; ".join(
        f"{label}: correlation {float(reward.correlation.estimate):.2f} after {reward.steps[-1]:,} steps"
        for label, reward in members.items()
    )
    return Drawing(task_id, name, png, pdf, f"Learned reward beside the task's own on {task_id}. {words}.")


def _accuracies(task_id: str, members: Mapping[str, Learned], places: Mapping[str, int]) -> Drawing | None:
    curves = [
        Curve(label, reward.steps, reward.accuracy) for label, reward in members.items() if reward.accuracy is not None
    ]
    if not curves:
        return None
    chart = Chart(task_id, "environment steps per seed", ACCURACY, curves)
    name = figures.file_name("reward-accuracy", task_id)
    ends = "; ".join(f"{curve.label} ends at {curve.values.estimate[-1]:.2f}" for curve in curves)
    words = f"Accuracy of the learned reward's preferences on unseen pairs on {task_id}. {ends}."
    return Drawing(f"{task_id}: {ACCURACY}", name, *figures.lines(chart, places), words, chart)


def plain(rewarded: Sequence[Learned]) -> list[dict[str, Any]]:
    """Return learned rewards beside the task's own, per row and task, as JSON data."""
    return [
        {
            "label": reward.label,
            "task": reward.task_id,
            "seeds": reward.seeds,
            "step": int(reward.steps[-1]),
            "correlation": export.spread(reward.correlation),
            "true": reward.true.tolist(),
            "learned": export.curve("move", np.arange(len(reward.true)), reward.learned),
            "accuracy_on_unseen_pairs": []
            if reward.accuracy is None
            else export.curve("step", reward.steps, reward.accuracy),
        }
        for reward in rewarded
    ]
