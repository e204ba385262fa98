"""How often each part of a task's success held at the end of an evaluation episode, for suites that declare subgoals:
tables of the last evaluation, and heat maps over training.

The data are the records `subgoals` of runs; privileged, for evaluation only.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guidebench.harness import statistics
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal, short
from guidebench.reports.summary import export
from guidebench.reports.summary.grids import Grid, over_runs
from guidebench.reports.summary.records import by_cell
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

HEADING = "subgoals met at the end of an episode"
ACHIEVEMENTS = "achievements"
"""Score of tasks whose subgoals are achievements, which have one score together (`geometric`)."""
TOGETHER = "Crafter's score"
REMARK = (
    "The share of evaluation episodes, over all seeds, that met each subgoal, at each evaluation that all seeds of a "
    "row have."
)
LINE, PANEL, AROUND = 0.105, 0.36, 0.9
"""Inches of a subgoal's line, of what is above and below a panel, and of title, colour bar and axis label."""
TITLE_LINE = 0.12
"""Inches of a further line of a row's name above its panel."""
NAME_CHARACTERS, ROW_CHARACTERS, BESIDE_CHARACTERS = 26, 38, 17
"""Most characters in a line of a subgoal's name, and of a row's name above its panel, alone or beside another."""
GRID_LINES = 40
"""Most evaluations that lines separate."""


class Subgoals(NamedTuple):
    """Success rates of the subgoals of one task; `rates`: row label -> share of episodes that met each of `names`."""

    task_id: str
    names: tuple[str, ...]
    rates: Mapping[str, tuple[Interval, ...]]
    history: Mapping[str, pd.DataFrame]
    """Row label -> means over seeds, a line per evaluation that all seeds have and a column per subgoal."""


def subgoals(
    cells: Iterable[CellRecord], rows: pd.DataFrame, labels: Mapping[str, str], reps: int = statistics.REPS
) -> list[Subgoals]:
    """Return the success rates of subgoals by task, as means over seeds at the last evaluation that all seeds of a cell
    have. `rows`: records of `subgoals`; `labels`: cell id -> row label."""
    by_task: dict[str, dict[str, pd.DataFrame]] = {}
    over_training: dict[str, dict[str, pd.DataFrame]] = {}
    for cell, label, cell_rows in by_cell(cells, rows, labels):
        shared = cell_rows.groupby("step")["seed"].nunique()
        shared = shared[shared == cell_rows["seed"].nunique()]
        if len(shared):
            last = cell_rows[cell_rows["step"] == shared.index.max()]
            rates = last.groupby(["seed", "subgoal"], sort=False)["met"].mean().unstack()
            if cell.score.name == ACHIEVEMENTS:
                rates[TOGETHER] = geometric(rates.to_numpy(float))
            seeds = (
                cell_rows[cell_rows["step"].isin(shared.index)]
                .groupby(["step", "seed", "subgoal"], sort=False)["met"]
                .mean()
            )
            history = seeds.groupby(["step", "subgoal"], sort=False).mean().unstack().sort_index()
            by_task.setdefault(cell.task_id, {})[label] = rates
            over_training.setdefault(cell.task_id, {})[label] = history
    return [_table(task_id, rates, over_training[task_id], reps) for task_id, rates in by_task.items()]


def geometric(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Crafter's score, as a share, of success rates [seeds, achievements]: with s the rates in per cent,
    exp(mean ln(1 + s)) - 1 per cent (Hafner 2022, eq. 1)."""
    score: NDArray[np.float64] = np.expm1(np.log1p(100 * rates).mean(axis=1)) / 100
    return score


def tables(tasks: Sequence[Subgoals]) -> list[Grid]:
    """Return a table of estimates for each task."""
    return [Grid(f"{task.task_id}: {HEADING}", task.names, task.rates, digits={TOGETHER: 4}) for task in tasks]


def _table(task_id: str, rates: Mapping[str, pd.DataFrame], history: Mapping[str, pd.DataFrame], reps: int) -> Subgoals:
    names = tuple(dict.fromkeys(name for frame in rates.values() for name in frame.columns))
    rates_of = {}
    for label, frame in rates.items():
        scores = frame.reindex(columns=names).to_numpy(float)
        if np.isfinite(scores).all():
            means = statistics.intervals(scores[:, None], ["mean"], reps, statistics.name_seed(label, 0))["mean"]
            rates_of[label] = tuple(Interval(*ends) for ends in zip(*means, strict=True))
        else:  # episodes of some seeds have no such subgoal
            rates_of[label] = tuple(over_runs(column, reps, label) for column in scores.T)
    return Subgoals(task_id, names, rates_of, history)


def plain(tasks: Sequence[Subgoals]) -> list[dict[str, Any]]:
    """Return the success rates by task and row as JSON data."""
    return [
        {
            "task": task.task_id,
            "rows": [
                {"label": label, **{name: export.spread(rate) for name, rate in zip(task.names, rates, strict=True)}}
                for label, rates in task.rates.items()
            ],
        }
        for task in tasks
    ]


def drawings(tasks: Sequence[Subgoals]) -> list[Drawing]:
    """Draw one heat map per task, a panel per row label: subgoals by evaluations, coloured by their rates."""
    return figures.numbered(
        Drawing(task.task_id, figures.file_name("subgoals", task.task_id), *_draw(task), _words(task)) for task in tasks
    )


def _draw(task: Subgoals) -> tuple[bytes, bytes]:
    names = [textwrap.fill(literal(name), NAME_CHARACTERS) for name in task.names if name != TOGETHER]
    height = max(0.4, LINE * sum(name.count("\n") + 1 for name in names))
    titles = [textwrap.wrap(literal(label), BESIDE_CHARACTERS) for label in task.history]
    columns = 2 if len(titles) > 1 and max(map(len, titles)) <= 2 else 1  # side by side where names leave room
    if columns == 1:
        titles = [textwrap.wrap(literal(label), ROW_CHARACTERS) for label in task.history]
    rows = -(-len(titles) // columns)
    above = TITLE_LINE * sum(max(map(len, titles[at : at + columns])) - 1 for at in range(0, len(titles), columns))
    total = rows * (height + PANEL) + above + AROUND
    with figures.canvas(total) as figure:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, title, history in zip(grid.flat, titles, task.history.values(), strict=False):
            image = _panel(axes, history.reindex(columns=[name for name in task.names if name != TOGETHER]), columns)
            axes.set_title("\n".join(title), fontsize=7)
        grid.flat[0].set_yticks(range(len(names)), names)
        for axes in grid.flat[len(titles) :]:
            axes.set_axis_off()
        ticks = [0, 0.25, 0.5, 0.75, 1]
        bar = figure.colorbar(image, ax=grid, location="top", ticks=ticks, shrink=0.8, aspect=32, pad=0.1 / total)
        bar.set_label("share of episodes", fontsize=7)
        bar.ax.tick_params(labelsize=6, width=0.5, length=2)
        bar.outline.set_linewidth(0.5)
        figure.suptitle(textwrap.fill(literal(task.task_id), figures.LABEL_CHARACTERS), fontsize=8)
        figure.supxlabel("environment steps per seed", fontsize=8)
        return figures.saved(figure)


def _panel(axes: Axes, history: pd.DataFrame, columns: int) -> AxesImage:
    """Draw a heat map of rates [evaluations, subgoals], the first subgoal at the top."""
    masked = np.ma.masked_invalid(history.to_numpy(float).T)
    image = axes.imshow(masked, cmap=figures.SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    steps = [int(step) for step in history.index]
    marked = range(0, len(steps), -(-len(steps) // (6 // columns)))
    axes.set_xticks(marked, [short(float(f"{steps[index]:.3g}")) for index in marked], fontsize=6)
    axes.tick_params(which="both", length=0)
    axes.tick_params(axis="y", labelsize=6)
    axes.spines[:].set_visible(False)
    if len(steps) <= GRID_LINES:
        axes.set_xticks(np.arange(0.5, len(steps) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, masked.shape[0] - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=0.4)
    return image


def _words(task: Subgoals) -> str:
    """Return a description of the picture: the subgoals met at each row's last evaluation."""
    parts = []
    for label, history in task.history.items():
        last = history.iloc[-1]
        met_text = ", ".join(f"{name} {rate:.2f}" for name, rate in last.items() if rate > 0)
        parts.append(f"{label} after {int(history.index[-1]):,} steps: {met_text or 'none'}")
    return (
        f"Heat maps of the share of episodes on {task.task_id} that met each subgoal, over training. At the last "
        f"evaluation, without those that were never met: {'; '.join(parts)}."
    )
