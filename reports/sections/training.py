"""What runs recorded over training, in panels that share their axis of steps; the data are the records `metrics`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.harness import statistics
from guidebench.harness.statistics import Interval
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import SUCCESS, Chart, Curve, Drawing, literal

if TYPE_CHECKING:
    import pandas as pd

    from guidebench.reports.sections import Source
    from guidebench.reports.summary.rows import ReportRow

BINS = 20
"""Most points of the curve of a log that has rows at other steps in every run."""
REMARK = "Means over seeds with 95 % intervals; where some seeds have no value, over the others and without interval."


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
        mine = (is_finite == pattern[:, None]).all(axis=0)
        seed = statistics.name_seed(label, 0)
        few = min(reps, statistics.CURVE_REPS)
        spread = statistics.intervals(values[pattern][:, None, mine], ["mean"], few, seed)["mean"]
        estimates[:, mine] = np.stack([np.asarray(end) for end in spread])
        if not pattern.all():
            estimates[1:, mine] = np.nan
    return Curve(label, table.columns.to_numpy(float)[columns], Interval(*estimates))


def success(row: ReportRow, label: str) -> Curve:
    """Return the curve of a row's success rate over training."""
    few = min(statistics.REPS, statistics.CURVE_REPS)
    seed = statistics.name_seed(label, 0)
    return Curve(label, row.steps, statistics.intervals(row.success[:, None], ["mean"], few, seed)["mean"])


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
        every = np.atleast_1d(canvas.subplots(len(charts), 1, sharex=True))
        handles: dict[str, Any] = {}
        last = max(float(curve.x[-1]) for chart in charts for curve in chart.curves)
        for axes, chart in zip(every, charts, strict=True):
            drawn = dict(zip((curve.label for curve in chart.curves), figures.plot(axes, chart, places), strict=True))
            handles |= drawn
            axes.set(xlim=(0, last or 1), ylabel=textwrap.fill(literal(chart.ylabel), 16))
            if not alike and any(drawn):
                texts = [wrapped[label] for label in drawn]
                above: Any = {"loc": "lower left", "bbox_to_anchor": (0, 0.97), "ncols": 3, "borderpad": 0}
                axes.legend(list(drawn.values()), texts, frameon=False, fontsize=6, handlelength=2.4, **above)
        canvas.suptitle("\n".join(lines), fontsize=8)
        every[-1].set_xlabel("environment steps per seed")
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


def beside(source: Source, panels: Mapping[str, str], required: str, name: str, title: str) -> list[Drawing]:
    """Draw a figure for each task with rows that have the metric `required`: a panel of their success rates, and one
    for each of `panels` (axis -> metric)."""
    metrics, drawn = source.rows("metrics"), list[Drawing]()
    if required not in metrics:
        return []
    having = set(metrics.loc[metrics[required].notna(), "cell"])
    tasks: dict[str, list[ReportRow]] = {}
    for row in source.summary.rows:
        if row.cell.id in having and row.label in source.places:
            tasks.setdefault(row.task_id, []).append(row)
    for task_id, rows in tasks.items():
        charts = [chart(SUCCESS, [success(row, row.label) for row in rows], share=True)]
        charts += [
            chart(
                axis,
                [
                    metric(metrics[metrics["cell"] == row.cell.id], recorded_metric, row.label, source.resamples)
                    for row in rows
                ],
            )
            for axis, recorded_metric in panels.items()
        ]
        file = figures.file_name(name, task_id, [other.name for other in drawn])
        picture = drawing(task_id, file, f"{title}\n{task_id}", charts, source.places)
        drawn += [picture] if picture else []
    return drawn
