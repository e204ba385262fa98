"""What runs recorded over training, in panels that share their axis of steps; the data are the records `metrics`."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import SUCCESS, Chart, Curve, Drawing, literal
from guidebench.reports.summary.grids import curve_over_runs
from guidebench.reports.summary.records import by_task, of_cell

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.sections import Source
    from guidebench.reports.summary.rows import ReportRow

BINS = 20
"""Most points of the curve of a log that has rows at other steps in every run."""
REMARK = "Means over seeds with 95 % intervals; where some seeds have no value, over the others and without interval."


class Panel(NamedTuple):
    """A panel of what runs recorded over training."""

    axis: str
    columns: Mapping[str, str]
    """Column of the log -> its name in the legend, "" where it is the only one; the column "" is the success rate."""
    log: str = "metrics"
    bins: bool = False
    """Whether the log has rows at other steps in every run (`binned`)."""
    share: bool = False
    """Whether values are drawn from 0 to 1."""


SUCCESS_PANEL = Panel(SUCCESS, {"": ""})


def metric(rows: pd.DataFrame, name: str, label: str, reps: int = statistics.REPS) -> Curve | None:
    """Return the curve of a metric over training, from one cell's records of `metrics`; None if no run has it. Steps at
    which no run has a value are left out; `label` names the curve and seeds the resamples."""
    if name not in rows:
        return None
    table = rows.pivot_table(index="seed", columns="step", values=name, aggfunc="last")
    return _curve(table, label, reps)


def binned(rows: pd.DataFrame, name: str, last: int, label: str, reps: int = statistics.REPS) -> Curve | None:
    """Return the curve of a column of one cell's log: its mean over each of `BINS` equal parts of `last` steps, drawn
    at their ends."""
    ends = np.linspace(0, last, BINS + 1)[1:]
    part = np.minimum(np.searchsorted(ends, rows["step"].to_numpy(float)), BINS - 1)
    table = rows.assign(part=ends[part]).pivot_table(index="seed", columns="part", values=name, aggfunc="mean")
    return _curve(table, label, reps)


def _curve(table: pd.DataFrame, label: str, reps: int) -> Curve | None:
    """Return the mean over runs, with interval, of a table [runs, steps], NaN where a run has no value; None if it has
    no value at all."""
    values = table.to_numpy(float)
    is_finite = np.isfinite(values)
    columns = np.flatnonzero(is_finite.any(axis=0))
    if not len(columns):
        return None
    estimates = np.full((3, len(columns)), np.nan)
    values, is_finite = values[:, columns], is_finite[:, columns]
    for pattern in np.unique(is_finite, axis=1).T:
        same_runs = (is_finite == pattern[:, None]).all(axis=0)
        spread = curve_over_runs(values[pattern][:, same_runs], reps, label)
        estimates[:, same_runs] = np.stack([np.asarray(end) for end in spread])
        if not pattern.all():
            estimates[1:, same_runs] = np.nan
    return Curve(label, table.columns.to_numpy(float)[columns], Interval(*estimates))


def success(row: ReportRow, label: str) -> Curve:
    """Return the curve of a row's success rate over training."""
    return Curve(label, row.steps, curve_over_runs(row.success, statistics.REPS, label))


def chart(axis: str, curves: Sequence[Curve | None], share: bool = False) -> Chart:
    """Return a panel with those of the curves that are not None; `share`: whether values are drawn from 0 to 1."""
    return Chart("", "", axis, [curve for curve in curves if curve is not None], unit_interval=share)


def drawing(caption: str, name: str, title: str, charts: Sequence[Chart], places: Mapping[str, int]) -> Drawing | None:
    """Draw panels one below the other, with one legend if all have lines of the same names, else one each; None if they
    are all empty. `title`: its first line says what is shown, further lines where."""
    charts = [chart for chart in charts if chart.curves]
    if not charts:
        return None
    names = [{curve.label for curve in chart.curves} for chart in charts]
    alike = all(labels <= max(names, key=len) for labels in names)
    wrapped = {name: textwrap.fill(literal(name), figures.LABEL_CHARACTERS) for labels in names for name in labels}
    below = sum(text.count("\n") + 1 for text in wrapped.values()) if alike else 0
    lines = [line for part in title.split("\n") for line in textwrap.wrap(literal(part), figures.LABEL_CHARACTERS)]
    with figures.canvas(1.15 * len(charts) + 0.45 + 0.13 * len(lines) + 0.15 * below) as canvas:
        panels = np.atleast_1d(canvas.subplots(len(charts), 1, sharex=True))
        handles: dict[str, Any] = {}
        last = max(float(curve.x[-1]) for chart in charts for curve in chart.curves)
        for axes, chart in zip(panels, charts, strict=True):
            plotted = dict(zip((curve.label for curve in chart.curves), figures.plot(axes, chart, places), strict=True))
            handles |= plotted
            axes.set(xlim=(0, last or 1), ylabel=textwrap.fill(literal(chart.ylabel), 16))
            if not alike and any(plotted):
                texts = [wrapped[label] for label in plotted]
                above: Any = {"loc": "lower left", "bbox_to_anchor": (0, 0.97), "ncols": 3, "borderpad": 0}
                axes.legend(list(plotted.values()), texts, frameon=False, fontsize=6, handlelength=2.4, **above)
        canvas.suptitle("\n".join(lines), fontsize=8)
        panels[-1].set_xlabel("environment steps per seed")
        if alike and any(handles):
            texts = [wrapped[label] for label in handles]
            canvas.legend(list(handles.values()), texts, loc="outside lower center", frameon=False, handlelength=3.2)
        png, pdf = figures.saved(canvas)
    ends = [
        f"{chart.ylabel}{f' ({curve.label})' if curve.label else ''} {float(curve.values.estimate[-1]):.3g} at the end"
        for chart in charts
        for curve in chart.curves
    ]
    return Drawing(caption, name, png, pdf, f"{' '.join(title.split())}, over training. {'; '.join(ends)}.")


def charts(
    rows: Mapping[str, ReportRow], panels: Sequence[Panel], logs: Mapping[str, pd.DataFrame], reps: int
) -> list[Chart]:
    """Return the data of panels, in each a curve per row and column. `rows`: name in the legend -> row, "" for a single
    one; `logs`: log -> its records."""

    def curve(name: str, row: ReportRow, panel: Panel, column: str) -> Curve | None:
        label = ", ".join(filter(None, (name, panel.columns[column])))
        if not column:
            return success(row, label)
        cell_rows = of_cell(logs[panel.log], row.cell.id)
        if panel.bins:
            return binned(cell_rows, column, row.cell.steps, label, reps)
        return metric(cell_rows, column, label, reps)

    return [
        chart(
            panel.axis,
            [curve(name, row, panel, column) for name, row in rows.items() for column in panel.columns],
            panel.share or "" in panel.columns,
        )
        for panel in panels
    ]


def of_row(
    row: ReportRow, panels: Sequence[Panel], logs: Mapping[str, pd.DataFrame], name: str, title: str, reps: int
) -> Drawing | None:
    """Draw panels of one row; None if its runs recorded nothing of them."""
    row_charts = charts({"": row}, panels, logs, reps)
    places = figures.styles(curve.label for chart in row_charts for curve in chart.curves)
    file = figures.file_name(name, f"{row.task_id}-{row.label}")
    return drawing(f"{row.task_id}: {row.label}", file, f"{title}\n{row.task_id}\n{row.label}", row_charts, places)


def beside(
    source: Source,
    panels: Sequence[Panel],
    logs: Mapping[str, pd.DataFrame],
    cells: Container[str],
    name: str,
    title: str,
) -> list[Drawing]:
    """Draw a figure for each task with the panels of those rows whose cells are among `cells`."""
    rows = [row for row in source.summary.rows if row.cell.id in cells and row.label in source.places]
    drawings = (
        drawing(
            task_id,
            figures.file_name(name, task_id),
            f"{title}\n{task_id}",
            charts({row.label: row for row in members}, panels, logs, source.resamples),
            source.places,
        )
        for task_id, members in by_task(rows).items()
    )
    return figures.numbered(drawings)
