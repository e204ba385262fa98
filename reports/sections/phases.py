"""Task phases of a replay's draws, beside those of the stored transitions (VLM-RB, app. D).

The data are the metrics `drawn/EVENT` and `stored/EVENT` of runs: shares of the transitions on the way to an event, as
means over seeds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal, short
from guidebench.reports.summary.records import by_cell, by_task
from guidebench.results import CellRecord

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

REMARK = (
    "Of the transitions that were learnt from, the shares on the way to each event of the task, means over seeds; "
    "dashed lines bound the same shares of all that was stored, which a uniform replay follows. Events are privileged "
    "information, for diagnosis only."
)
COLUMNS = 2
PANEL, TITLE_LINE, LEGEND_LINE, AROUND = 1.25, 0.13, 0.15, 0.5
"""Inches of a row of panels, of a further line of a title, of a line of the legend, and of the axis label and edges."""
MOST_BESIDE, MARK_CHARACTERS = 3, 5
"""Most entries in a line of the legend, and characters that an entry's mark is as wide as."""
OPACITY = 0.5
DRAWN, STORED = "drawn/", "stored/"


class Spread(NamedTuple):
    """Shares of task phases of one row: frames indexed by step, with a column per event."""

    label: str
    task_id: str
    drawn: pd.DataFrame
    stored: pd.DataFrame
    seeds: int


def spreads(
    cells: Iterable[CellRecord], rows: pd.DataFrame, probes: pd.DataFrame, labels: Mapping[str, str]
) -> list[Spread]:
    """Return an entry for each cell whose runs record task phases. `rows`: records of `metrics`; `probes`: records of
    `probes`, for the order of events; `labels`: cell id -> row label."""
    first = probes.groupby("quantity")["t"].min()  # a reference episode has the events in their usual order
    events = [name.removeprefix(DRAWN) for name in map(str, rows) if name.startswith(DRAWN)]
    events.sort(key=lambda event: (first.get(f"event/{event}", np.inf), event))
    spreads = []
    for cell, label, cell_rows in by_cell(cells, rows, labels):
        task_events = [event for event in events if cell_rows[DRAWN + event].notna().any()]
        if not task_events:
            continue
        columns, seeds = (
            [kind + event for kind in (DRAWN, STORED) for event in task_events],
            cell_rows["seed"].nunique(),
        )
        complete = cell_rows.dropna(subset=columns).groupby("step")
        means = complete[columns].mean()[complete["seed"].nunique() == seeds]  # as curves: the same seeds at every step
        if means.empty:
            continue
        drawn, stored = (
            means[[kind + event for event in task_events]].set_axis(task_events, axis=1) for kind in (DRAWN, STORED)
        )
        spreads.append(Spread(label, cell.task_id, drawn, stored, seeds))
    return spreads


def drawings(spreads: Sequence[Spread]) -> list[Drawing]:
    """Draw one figure per task, a panel per label."""
    return figures.numbered(
        Drawing(task_id, figures.file_name("phases", task_id), *_draw(members), _words(task_id, members))
        for task_id, members in by_task(spreads).items()
    )


def _draw(members: Sequence[Spread]) -> tuple[bytes, bytes]:
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    events = _events(members)
    colours = _colours(len(events))
    words = [f"to the {literal(event)}" for event in events]
    beside = max(1, min(MOST_BESIDE, figures.LABEL_CHARACTERS // (max(map(len, words)) + MARK_CHARACTERS)))
    columns = min(COLUMNS, len(members))
    titles = [textwrap.fill(literal(spread.label), figures.LABEL_CHARACTERS // COLUMNS) for spread in members]
    lines = [max(title.count("\n") for title in titles[at : at + columns]) for at in range(0, len(titles), columns)]
    height = PANEL * len(lines) + TITLE_LINE * sum(lines) + LEGEND_LINE * -(-len(words) // beside) + AROUND
    with figures.canvas(height) as figure:
        grid = figure.subplots(len(lines), columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, title, spread in zip(grid, titles, members, strict=False):
            _panel(axes, spread, events, colours)
            axes.set_title(title, fontsize=7)
        for axes in grid[len(members) :]:
            axes.set_visible(False)
        grid[0].set(ylim=(0, 1), xlim=(0, max(int(spread.drawn.index.max()) for spread in members)))
        grid[0].xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        grid[0].xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        figure.supylabel("share of draws", fontsize=8)
        for axes in grid[max(0, len(members) - columns) : len(members)]:
            axes.set_xlabel("environment steps")
            axes.tick_params(labelbottom=True)
        patches = [Patch(color=colour, alpha=OPACITY) for colour in colours]
        figure.legend(patches, words, loc="outside lower center", ncols=beside, frameon=False, handlelength=1.2)
        return figures.saved(figure)


def _events(members: Sequence[Spread]) -> list[str]:
    """Return the events whose phases occur in these rows, in the order of the task; all events if none occurs."""
    events = dict.fromkeys(str(event) for spread in members for event in spread.drawn)
    return [event for event in events if any(_shares(spread.stored, [event]).any() for spread in members)] or [*events]


def _shares(shares: pd.DataFrame, events: Sequence[str]) -> NDArray[np.float64]:
    """Return the shares of these events, [steps, events]; 0 for an event that the table lacks."""
    return shares.reindex(columns=list(events)).fillna(0.0).to_numpy(float)


def _panel(axes: Axes, spread: Spread, events: Sequence[str], colours: Sequence[Any]) -> None:
    """Draw the shares of the draws as bands and the bounds of the stored shares as dashed lines."""
    steps = spread.drawn.index.to_numpy()
    axes.stackplot(steps, _shares(spread.drawn, events).T, colors=colours, alpha=OPACITY, linewidth=0)
    bounds = np.cumsum(_shares(spread.stored, events), axis=1)[:, :-1]
    for bound in bounds.T:
        axes.plot(steps, bound, color="black", linewidth=0.7, linestyle=(0, (3, 2)))


def _colours(count: int) -> list[Any]:
    """Return a colour for each of `count` phases: from the palette, or from a sequential map if there are more."""
    if count <= len(figures.PALETTE):
        return list(figures.PALETTE[:count])
    import matplotlib

    return list(matplotlib.colormaps[figures.SEQUENTIAL](np.linspace(0, 1, count)))


def _words(task_id: str, members: Sequence[Spread]) -> str:
    """Return a description of the picture: mean shares of each phase over the second half of training."""
    parts = []
    for spread in members:
        late = spread.drawn.index >= spread.drawn.index.max() / 2
        drawn, stored = spread.drawn[late].mean(), spread.stored[late].mean()
        shares = ", ".join(f"{event} {drawn[event]:.2f} ({stored[event]:.2f})" for event in spread.drawn)
        parts.append(f"{spread.label} (seeds: {spread.seeds}): {shares}")
    return (
        f"Shares of draws on {task_id} by the phase of the task, in brackets those of all stored transitions; means "
        f"over the second half of training. {'; '.join(parts)}."
    )
