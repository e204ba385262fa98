"""A paper's figures from probes and logs: judges, labels, learned rewards, imagined segments, episodes' outcomes."""

from __future__ import annotations

import numpy as np

from guidebench import results
from guidebench.reports.papers import text
from guidebench.reports.papers.estimates import Setting
from guidebench.reports.papers.filled import words
from guidebench.reports.papers.layouts import (
    BarFigure,
    Imagined,
    Labels,
    Named,
    ReferenceFigure,
    Rewards,
    TaskBars,
    Training,
    Trajectories,
)
from guidebench.reports.papers.sources import Sources
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal
from guidebench.reports.sections import preferences, probes, rewards
from guidebench.reports.sections import training as over_steps
from guidebench.reports.sections.imagined import draw as paths
from guidebench.reports.sections.imagined import sketches
from guidebench.reports.summary.rows import ReportRow


def episode(figure: ReferenceFigure, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of the judge's score beside the critic along reference episodes, a drawing per task that has a
    row."""
    drawings = []
    for task in figure.tasks:
        row = sources.row(figure.suite, task, ("", figure.method, {}))
        if row is not None:
            rows = results.noted(sources.study_of(row), "probes")
            drawn = probes.drawings(probes.probed([row.cell], rows, {row.cell.id: row.label}))
            caption = f"Figure {figure.figure}, {row.task_id}"
            drawings += [drawing._replace(name=name, caption=caption) for drawing in drawn]
    return drawings


def labels(figure: Labels, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of label accuracy and return over training; return none if no row has labels."""
    rows = _rows(figure.suite, figure.task, figure.curves, sources)
    taught = {called: sources.teaching(row) for called, row in rows.items()}
    drawable = {
        called: teaching for called, teaching in taught.items() if teaching is not None and teaching.over_training
    }
    if not drawable:
        return []
    places = figures.styles(called for called, _, _ in figure.curves)
    caption = f"Figure {figure.figure}, {_title(figure)}, {figure.task}"
    drawn = preferences.over_training(figure.task, name, drawable, rows, places)
    return [drawn._replace(caption=caption, alt=f"{caption}. {drawn.alt}")]


def learned(figure: Rewards, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of learned rewards beside the task's own along its reference episode; return none if no row probed
    them."""
    rows = _rows(figure.suite, figure.task, figure.curves, sources)
    probed = {called: sources.learned(row) for called, row in rows.items()}
    drawable = {called: reward for called, reward in probed.items() if reward is not None}
    if not drawable:
        return []
    places = figures.styles(called for called, _, _ in figure.curves)
    caption = f"Figure {figure.figure}, {_title(figure)}, {figure.task}"
    drawn = rewards.along(figure.task, name, drawable, places)
    return [drawn._replace(caption=caption, alt=f"{caption}. {drawn.alt}")]


def imagined(figure: Imagined, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of the rewards of imagined segments beside those of preferred ones, a group of bars per task; none
    without rows."""
    bars = {}
    for task in figure.tasks:
        row = sources.row(figure.suite, task, ("", figure.method, {}))
        taught = sources.teaching(row) if row is not None else None
        if taught is not None and taught.rewards:
            bars[task] = taught.rewards
    if not bars:
        return []
    caption = f"Figure {figure.figure}, {_title(figure)}"
    drawn = preferences.rewards(figure.method, name, bars)
    return [drawn._replace(caption=caption, alt=f"{caption}. {drawn.alt}")]


def trajectories(figure: Trajectories, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of the paths of imagined segments, a drawing per task that has a row."""
    drawn: list[Drawing] = []
    for task in figure.tasks:
        row = sources.row(figure.suite, task, ("", figure.method, {}))
        if row is None:
            continue
        rows = results.noted(sources.study_of(row), "imagined")
        for sketch in sketches([row.cell], rows, {row.cell.id: row.label}):
            drawing = paths(sketch, figures.file_name(name, task, [other.name for other in drawn]))
            drawn.append(drawing._replace(caption=f"Figure {figure.figure}, {_title(figure)}, {task}"))
    return drawn


def bars(figure: BarFigure, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of several metrics of a few rows, one axis per metric that any row has; none with fewer than two
    rows."""
    rows = _rows(figure.suite, figure.task, figure.bars, sources)
    estimates = {
        metric: {
            called: sources.estimator(metric, [Setting(row)]).interval
            for called, row in rows.items()
            if not sources.estimator.lacks(row, metric)
        }
        for metric in figure.metrics
    }
    estimates = {metric: bars for metric, bars in estimates.items() if bars}
    if len(rows) < 2 or not estimates:
        return []
    caption = f"Figure {figure.figure}, {_title(figure)}, {figure.task}"
    with figures.canvas(0.6 + len(estimates) * (0.3 + 0.2 * len(rows))) as canvas:
        every = np.atleast_1d(canvas.subplots(len(estimates), 1))
        for axes, (metric, bars) in zip(every, estimates.items(), strict=True):
            preferences.grouped(axes, {called: {metric: bar} for called, bar in bars.items()}, [metric])
            axes.set_title(literal(words(metric)), loc="left", pad=2, fontsize=7)
            if metric.endswith("_percent"):
                axes.set_xlim(0, 100)
        canvas.suptitle(literal(figure.task), fontsize=8)
        png, pdf = figures.saved(canvas)
    numbers = "; ".join(
        f"{words(metric)} of {called} {text.spread(metric, bar)}"
        for metric, bars in estimates.items()
        for called, bar in bars.items()
    )
    return [Drawing(caption, name, png, pdf, f"{caption}. {numbers}.")]


def by_task(figure: TaskBars, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of one metric with a group of bars per task and a bar per row; none if no row has the metric."""
    estimates = {
        task: {
            called: sources.estimator(figure.metric, [Setting(row)]).interval
            for called, row in _rows(figure.suite, task, figure.bars, sources).items()
            if not sources.estimator.lacks(row, figure.metric)
        }
        for task in figure.tasks
    }
    estimates = {task: bars for task, bars in estimates.items() if bars}
    if not estimates:
        return []
    names = [called for called, _, _ in figure.bars if any(called in bars for bars in estimates.values())]
    lacking = [called for called, _, _ in figure.bars if called not in names]
    missing = f" (not run: {', '.join(lacking)})" if lacking else ""
    caption = f"Figure {figure.figure}, {_title(figure)}{missing}"
    with figures.canvas(0.6 + len(estimates) * (0.2 + 0.12 * len(names)) + 0.13 * -(-len(names) // 2)) as canvas:
        axes = canvas.subplots()
        preferences.grouped(axes, estimates, names)
        axes.set_xlabel(literal(words(figure.metric)))
        if figure.metric.endswith("_percent"):
            axes.set_xlim(0, 100)
        canvas.legend(loc="outside lower center", ncols=2, frameon=False)
        png, pdf = figures.saved(canvas)
    numbers = "; ".join(
        f"{task}: {', '.join(f'{called} {text.spread(figure.metric, bar)}' for called, bar in bars.items())}"
        for task, bars in estimates.items()
    )
    return [Drawing(caption, name, png, pdf, f"{caption}. {words(figure.metric)} of {numbers}.")]


def training(figure: Training, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of what runs recorded over training, a drawing per task that has a run of every curve."""
    drawn: list[Drawing] = []
    for task in figure.tasks:
        rows = _rows(figure.suite, task, figure.curves, sources)
        if len(rows) < len(figure.curves):
            continue
        records = {called: results.noted(sources.study_of(row), "metrics") for called, row in rows.items()}
        charts = []
        for axis, metrics in figure.panels:
            curves = []
            for called, row in rows.items():
                mine = records[called][records[called]["cell"] == row.cell.id]
                for metric, named in metrics.items():
                    label = ", ".join(part for part in (called if len(rows) > 1 else "", named) if part)
                    curves.append(
                        over_steps.metric(mine, metric, label, sources.reps)
                        if metric
                        else over_steps.success(row, label)
                    )
            charts.append(over_steps.chart(axis, curves, share="" in metrics))
        caption = f"Figure {figure.figure}, {_title(figure)}, {task}"
        places = figures.styles(curve.label for chart in charts for curve in chart.curves)
        file = name if len(figure.tasks) == 1 else figures.file_name(name, task, [drawing.name for drawing in drawn])
        made = over_steps.drawing(caption, file, caption, charts, places)
        drawn += [made] if made else []
    return drawn


def _title(figure: Labels | Rewards | Imagined | Trajectories | BarFigure | Training | TaskBars) -> str:
    return f"{figure.title[0].lower()}{figure.title[1:]}"


def _rows(suite: str, task: str, named: tuple[Named, ...], sources: Sources) -> dict[str, ReportRow]:
    """Return name in the figure -> row, for those methods and variants of a figure that have a row on the task."""
    rows = {curve[0]: sources.row(suite, task, curve) for curve in named}
    return {called: row for called, row in rows.items() if row is not None}
