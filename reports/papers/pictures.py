"""A paper's figures from our runs; each kind of figure has its own drawing function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from guidebench.reports.papers import evidence, panels
from guidebench.reports.papers.layouts import (
    BarFigure,
    Imagined,
    Labels,
    Panels,
    Paper,
    ReferenceFigure,
    Rewards,
    TaskBars,
    TestSteps,
    Training,
    Trajectories,
)
from guidebench.reports.papers.sources import Sources
from guidebench.reports.rendering import figures
from guidebench.reports.rendering.figures import Drawing

DRAWN: Mapping[type, Callable[[Any, str, Sources], list[Drawing]]] = {
    Panels: panels.draw,
    ReferenceFigure: evidence.episode,
    Labels: evidence.labels,
    Rewards: evidence.learned,
    Imagined: evidence.imagined,
    Trajectories: evidence.trajectories,
    BarFigure: evidence.bars,
    Training: evidence.training,
    TestSteps: panels.over_tests,
    TaskBars: evidence.by_task,
}
"""Kind of figure -> function that draws one, by file name; it returns nothing if no run has the data."""


class Figures(NamedTuple):
    """The drawn figures, and the names of those for which no chosen study has a run."""

    drawings: tuple[Drawing, ...]
    missing: tuple[str, ...]


def draw(paper: Paper, sources: Sources) -> Figures:
    """Draw every figure of a paper for which there is a run."""
    drawn: list[Drawing] = []
    missing: list[str] = []
    taken: list[str] = []
    for figure in paper.figures:
        name = figures.file_name("figure", figure.figure, taken)
        drawings = DRAWN[type(figure)](figure, name, sources)
        drawn += drawings
        taken += dict.fromkeys([name, *(drawing.name for drawing in drawings)]) if drawings else []
        missing += [] if drawings else [f"figure {figure.figure} ({figure.title[0].lower()}{figure.title[1:]})"]
    return Figures(tuple(drawn), tuple(missing))
