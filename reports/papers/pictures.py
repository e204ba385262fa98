"""A paper's figures from our runs; each kind of figure has its own drawing function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Interval
from guidebench.reports.papers import panels, text
from guidebench.reports.papers.estimates import Setting
from guidebench.reports.papers.filled import words
from guidebench.reports.papers.layouts import Figure, Paper
from guidebench.reports.papers.sources import Sources
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.sections import imagined, preferences, probes, rewards, training
from guidebench.reports.summary.rows import ReportRow


class Figures(NamedTuple):
    """The drawn figures, and the names of those for which no chosen study has a run."""

    drawings: tuple[Drawing, ...]
    missing: tuple[str, ...]


def draw(paper: Paper, sources: Sources) -> Figures:
    """Draw every figure of a paper for which there is a run."""
    paper_drawings: list[Drawing] = []
    missing: list[str] = []
    file_names: list[str] = []
    for figure in paper.figures:
        name = figures.free_name(figures.file_name("figure", figure.figure), file_names)
        drawings = KINDS[figure.kind](figure, name, sources)
        paper_drawings += drawings
        file_names += dict.fromkeys([name, *(drawing.name for drawing in drawings)]) if drawings else []
        missing += [] if drawings else [f"figure {figure.figure} ({figure.about})"]
    return Figures(tuple(paper_drawings), tuple(missing))


def _captioned(drawing: Drawing, caption: str) -> list[Drawing]:
    return [drawing._replace(caption=caption, alt=f"{caption}. {drawing.alt}")]


def _of_row(source: Callable[..., Sequence[Any]], row: ReportRow, log: str, sources: Sources, *more: Any) -> Any:
    """Return what a section finds in a log of a row's runs, or None. `source`: the section's function from cells,
    records and labels."""
    contents = source([row.cell], sources.records(row, log), {row.cell.id: row.label}, *more)
    return contents[0] if contents else None


def _teaching(row: ReportRow, sources: Sources) -> Any:
    return _of_row(preferences.teaching, row, "labels", sources, sources.reps)


def _reference(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    rows = [row for task in figure.tasks for row in sources.rows(figure, task).values()]
    probed = [(row, _of_row(probes.probed, row, "probes", sources)) for row in rows]
    return [
        drawing._replace(name=name, caption=f"Figure {figure.figure}, {row.task_id}")
        for row, probe in probed
        if probe is not None
        for drawing in probes.drawings([probe])
    ]


def _labels(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    (task,) = figure.tasks
    rows = sources.rows(figure, task)
    taught = {called: _teaching(row, sources) for called, row in rows.items()}
    drawable = {called: teaching for called, teaching in taught.items() if teaching and teaching.over_training}
    if not drawable:
        return []
    places = figures.styles(called for called, _, _ in figure.rows)
    drawing = preferences.over_training(task, name, drawable, rows, places)
    return _captioned(drawing, figure.caption(None, task))


def _rewards(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    (task,) = figure.tasks
    rows = sources.rows(figure, task)
    learnt = {called: _of_row(rewards.learned, row, "probes", sources, sources.reps) for called, row in rows.items()}
    drawable = {called: reward for called, reward in learnt.items() if reward}
    if not drawable:
        return []
    places = figures.styles(called for called, _, _ in figure.rows)
    return _captioned(rewards.along(task, name, drawable, places), figure.caption(None, task))


def _imagined(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    rows = {task: row for task in figure.tasks for row in sources.rows(figure, task).values()}
    taught = {task: _teaching(row, sources) for task, row in rows.items()}
    bars = {task: teaching.rewards for task, teaching in taught.items() if teaching and teaching.rewards}
    ((method, _, _),) = figure.rows
    return _captioned(preferences.rewards(method, name, bars), figure.caption()) if bars else []


def _paths(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    rows = [(task, row) for task in figure.tasks for row in sources.rows(figure, task).values()]
    sketches = [(task, _of_row(imagined.sketches, row, "imagined", sources)) for task, row in rows]
    return figures.numbered(
        imagined.draw(sketch, figures.file_name(name, task))._replace(caption=figure.caption(None, task))
        for task, sketch in sketches
        if sketch
    )


def _estimates(figure: Figure, task: str, metric: str, sources: Sources) -> dict[str, Interval]:
    """Return name in the figure -> our estimate of a metric on a task, for the rows whose runs recorded it."""
    return {
        called: sources.estimator(metric, [Setting(row)]).interval
        for called, row in sources.rows(figure, task).items()
        if not sources.estimator.lacks(row, metric)
    }


def _metrics(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    """Draw bars of several metrics of a few rows, an axis for each that any row has; none with fewer than two rows."""
    (task,) = figure.tasks
    count = len(sources.rows(figure, task))
    estimates = {metric: bars for metric in figure.metrics if (bars := _estimates(figure, task, metric, sources))}
    if count < 2 or not estimates:
        return []
    caption = figure.caption(None, task)
    with figures.canvas(0.6 + len(estimates) * (0.3 + 0.2 * count)) as canvas:
        every = np.atleast_1d(canvas.subplots(len(estimates), 1))
        for axes, (metric, bars) in zip(every, estimates.items(), strict=True):
            preferences.grouped(axes, {called: {metric: bar} for called, bar in bars.items()}, [metric])
            axes.set_title(literal(words(metric)), loc="left", pad=2, fontsize=7)
            if metric.endswith("_percent"):
                axes.set_xlim(0, 100)
        canvas.suptitle(literal(task), fontsize=8)
        png, pdf = figures.saved(canvas)
    numbers = "; ".join(
        f"{words(metric)} of {called} {text.spread(metric, bar)}"
        for metric, bars in estimates.items()
        for called, bar in bars.items()
    )
    return [Drawing(caption, name, png, pdf, f"{caption}. {numbers}.")]


def _tasks(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    (metric,) = figure.metrics
    estimates = {task: bars for task in figure.tasks if (bars := _estimates(figure, task, metric, sources))}
    if not estimates:
        return []
    names = [called for called, _, _ in figure.rows if any(called in bars for bars in estimates.values())]
    caption = figure.caption(names)
    with figures.canvas(0.6 + len(estimates) * (0.2 + 0.12 * len(names)) + 0.13 * -(-len(names) // 2)) as canvas:
        axes = canvas.subplots()
        preferences.grouped(axes, estimates, names)
        axes.set_xlabel(literal(words(metric)))
        if metric.endswith("_percent"):
            axes.set_xlim(0, 100)
        canvas.legend(loc="outside lower center", ncols=2, frameon=False)
        png, pdf = figures.saved(canvas)
    numbers = "; ".join(
        f"{task}: {', '.join(f'{called} {text.spread(metric, bar)}' for called, bar in bars.items())}"
        for task, bars in estimates.items()
    )
    return [Drawing(caption, name, png, pdf, f"{caption}. {words(metric)} of {numbers}.")]


def _training(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    """Draw what runs recorded over training, for each task that has a run of every row."""
    import pandas as pd

    drawings = []
    for task in figure.tasks:
        rows = sources.rows(figure, task)
        if len(rows) == len(figure.rows):
            logs = {"metrics": pd.concat([sources.records(row, "metrics") for row in rows.values()])}
            named = rows if len(rows) > 1 else dict.fromkeys([""], *rows.values())
            charts = training.charts(named, figure.panels, logs, sources.reps)
            caption = figure.caption(None, task)
            places = figures.styles(curve.label for chart in charts for curve in chart.curves)
            file = name if len(figure.tasks) == 1 else figures.file_name(name, task)
            drawings.append(training.drawing(caption, file, caption, charts, places))
    return figures.numbered(drawings)


KINDS: Mapping[str, Callable[[Figure, str, Sources], list[Drawing]]] = {
    "curves": panels.draw,
    "reference": _reference,
    "labels": _labels,
    "rewards": _rewards,
    "imagined": _imagined,
    "paths": _paths,
    "metrics": _metrics,
    "tasks": _tasks,
    "training": _training,
}
"""`Figure.kind` -> function that draws one, by file name; it returns nothing if no run has the data."""
