"""A paper's figures of curves from our runs: over training, with the share λ of draws, and over the steps of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.statistics import Array, Interval
from guidebench.reports.papers.layouts import Figure
from guidebench.reports.papers.matching import Shelf
from guidebench.reports.papers.sources import Sources
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing, literal, short
from guidebench.reports.summary.grids import curve_over_runs
from guidebench.reports.summary.rows import ReportRow
from guidebench.results.rows import EVALUATIONS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PANEL_INCHES = (2.2, 1.8)
BASELINES = ("uer", "per")
_GREY = "#555555"
POINTS = 200
"""Most points of a curve over the steps of a test."""
LOOKS = {
    "success": (figures.SUCCESS, "environment steps per seed"),
    "return": (figures.RETURN, "environment steps per seed"),
    "tests": ("share of tests solved", "steps of a test"),
}
"""`Figure.of` -> the labels of its axes: quantity, and what it is drawn along."""


class Panel(NamedTuple):
    """The curves of one task and learner by name, and the row whose final level is drawn as a dashed line."""

    title: str
    curves: Mapping[str, ReportRow]
    reference: ReportRow | None


class Look(NamedTuple):
    """What is drawn of each row of a figure, and the axis labels."""

    curves: Mapping[int, tuple[Array, Interval]]
    """Id of a row -> the points of its curve and their values."""
    quantity: str
    along: str


def draw(figure: Figure, name: str, sources: Sources) -> list[Drawing]:
    """Draw a figure of curves, with the schedule of λ if it has one; return none if no panel has enough curves."""
    panels = _panels(figure, sources.shelf)
    if not panels:
        return []
    rows = [row for panel in panels for row in (*panel.curves.values(), panel.reference) if row is not None]
    curves = {id(row): _points(row, figure.of, sources) for row in rows}
    names = [name for name, _, _ in figure.rows]
    drawing = _curves(figure, name, panels, names, Look(curves, *LOOKS[figure.of]))
    return [drawing, *(_schedule(figure, panels, names, sources) if figure.schedule else [])]


def _points(row: ReportRow, of: str, sources: Sources) -> tuple[Array, Interval]:
    if of != "tests":
        return row.steps, row.curve if of == "success" else row.return_curve
    played = sources.records(row, EVALUATIONS)
    return within(played[played["step"] == row.last - row.cell.before], row.label, sources.reps)


def within(played: pd.DataFrame, label: str, reps: int) -> tuple[Array, Interval]:
    """Return numbers of steps [n], from 0 to the longest episode, and the share of episodes that have succeeded within
    them, [n], in the mean over seeds. `played`: the episodes of one evaluation; `label` seeds the resamples."""
    longest = int(played["length"].max())
    steps = np.unique(np.linspace(0, longest, min(longest + 1, POINTS)).astype(int))
    solved = played["length"].where(played["success"].astype(bool), np.inf)
    shares = [(lengths.to_numpy(float)[:, None] <= steps).mean(axis=0) for _, lengths in solved.groupby(played["seed"])]
    return steps.astype(float), curve_over_runs(np.stack(shares), reps, label)


def _panels(figure: Figure, shelf: Shelf) -> list[Panel]:
    panels = []
    for learner in figure.learners:
        for task in figure.tasks:
            rows = {
                name: row
                for name, method, variant in figure.rows
                if (row := shelf.row(figure.suite, task, method, learner, variant)) is not None
            }
            our_tasks, meant = {row.cell.task for row in rows.values()}, shelf.paper.tasks.get(task, task)
            name = task if meant == task else f"{task}, {meant}"
            title = " ".join([name, *(f"({other} in its place)" for other in sorted(our_tasks - {meant}))])
            reference = shelf.row(figure.suite, task, figure.reference, learner, {}) if figure.reference else None
            if len(rows) >= figure.least:
                panels.append(Panel(f"{learner.upper()} {title}".strip(), rows, reference))
    return panels


def _curves(figure: Figure, name: str, panels: Sequence[Panel], names: Sequence[str], look: Look) -> Drawing:
    """Draw all panels of a figure in one picture."""

    def end(row: ReportRow) -> float:
        return float(look.curves[id(row)][1].estimate[-1])

    across = min(3, len(panels))
    down = -(-len(panels) // across)

    width, height = PANEL_INCHES
    with figures.canvas(height * down + 0.75, max(figures.WIDTH_INCHES, width * across)) as canvas:
        grid = np.atleast_1d(canvas.subplots(down, across, squeeze=False)).reshape(-1)
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid, panels, strict=False):
            for label, row in panel.curves.items():
                handles[label] = _curve(axes, *look.curves[id(row)], names.index(label))
            if panel.reference is not None:
                handles[figure.reference] = axes.axhline(
                    end(panel.reference), color=_GREY, linewidth=0.9, linestyle=(0, (4, 2))
                )
            if figure.arrows and set(panel.curves) & set(BASELINES):
                _arrows(axes, panel)
            last = max(float(look.curves[id(row)][0][-1]) for row in panel.curves.values())
            axes.set(xlim=(0, last), title=literal(panel.title))
            if figure.of != "return":
                axes.set_ylim(-0.03, 1.03)
            axes.xaxis.set_major_formatter(lambda steps, _: short(steps))
            axes.grid(axis="y", linewidth=0.4, color="#DDDDDD")
        for index, axes in enumerate(grid):
            axes.set_visible(index < len(panels))
            if index + across >= len(panels):
                axes.set_xlabel(look.along)
            if index % across == 0:
                axes.set_ylabel(look.quantity)
        columns = min(3, len(handles)) if across > 1 else 1
        canvas.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns, frameon=False)
        png, pdf = figures.saved(canvas)
    words = "; ".join(
        f"{panel.title}: " + ", ".join(f"{label} ends at {end(row):.2f}" for label, row in panel.curves.items())
        for panel in panels
    )
    about = figure.caption({label for panel in panels for label in panel.curves})
    return Drawing(about, name, png, pdf, f"{about}: {look.quantity} against {look.along}. {words}.")


def _curve(axes: Axes, steps: Array, values: Interval, index: int) -> object:
    (line,) = axes.plot(steps, values.estimate, linewidth=1.1, **figures.style(index))
    if np.isfinite(values.low).all():
        axes.fill_between(steps, values.low, values.high, color=line.get_color(), alpha=0.15, linewidth=0)
    return line


def _arrows(axes: Axes, panel: Panel) -> None:
    """Draw arrows from the best baseline's best to the first curve: horizontal for steps saved, vertical for the
    gain."""
    ours = next(iter(panel.curves.values()))
    baseline = max((panel.curves[name] for name in BASELINES if name in panel.curves), key=lambda row: row.best)
    if baseline is ours or baseline.best <= 0:
        return
    hit = np.flatnonzero(ours.curve.estimate >= baseline.best - 1e-12)
    style = {"arrowstyle": "->", "color": _GREY, "linewidth": 0.8}
    if len(hit) and ours.steps[hit[0]] < baseline.best_step:
        saved = 100 * (baseline.best_step - ours.steps[hit[0]]) / baseline.best_step
        start, end = (baseline.best_step, baseline.best), (ours.steps[hit[0]], baseline.best)
        axes.annotate("", end, start, arrowprops=style)
        axes.annotate(f"−{saved:.0f}% steps", end, (0, -7), textcoords="offset points", fontsize=5.5, color=_GREY)
    if ours.best > baseline.best:
        gain = 100 * (ours.best - baseline.best) / baseline.best
        axes.annotate("", (ours.best_step, ours.best), (ours.best_step, baseline.best), arrowprops=style)
        text = (ours.best_step, (ours.best + baseline.best) / 2)
        beside: dict[str, Any] = {"ha": "right", "fontsize": 5.5, "color": _GREY}
        axes.annotate(f"+{gain:.0f}% ", text, (-2, 0), textcoords="offset points", **beside)


def _schedule(figure: Figure, panels: Sequence[Panel], names: Sequence[str], sources: Sources) -> list[Drawing]:
    """Draw λ over training, from the metrics that runs recorded."""
    series = {}
    for panel in panels:
        for label, row in panel.curves.items():
            cell_rows = sources.records(row, "metrics")
            if "replay/lambda" in cell_rows:
                series[label] = cell_rows.groupby("step")["replay/lambda"].mean().dropna()
    if not series:
        return []

    with figures.canvas(2.1) as canvas:
        axes = canvas.subplots()
        for label, values in series.items():
            axes.plot(values.index, values, linewidth=1.1, label=label, **figures.style(names.index(label)))
        axes.set(xlabel="environment steps per seed", ylabel=r"$\lambda_t$", ylim=(-0.03, 1.03))
        axes.xaxis.set_major_formatter(lambda steps, _: short(steps))
        canvas.legend(loc="outside lower center", ncols=3, frameon=False)
        png, pdf = figures.saved(canvas)
    words = ", ".join(f"{label} ends at {values.iloc[-1]:.2f}" for label, values in series.items())
    about = f"Figure {figure.figure}, right: how λ rose"
    name = figures.file_name("figure", f"{figure.figure}-lambda")
    return [Drawing(about, name, png, pdf, f"{about}. {words}.")]
